"""What is asked of a model's quantizers, read and checked once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from onnxport.report.near_names import near

OBSERVERS = ("minmax", "percentile", "learned")
TARGETS = ("onnxruntime", "tensorrt")
WEIGHT_BITS = range(2, 9)
ACTIVATION_BITS = (*range(2, 9), 16, None)
# The keys of a configuration that are no settings of a layer.
OTHER_KEYS = ("skip", "parts", "example")
# With more, a product of two integers does not fit the accumulator of integer kernels.
INTEGER_ARITHMETIC_BITS = 8


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the tensors of a layer are quantized. ``activation_bits=None`` leaves all but weights in float."""

    weight_bits: int = 8
    activation_bits: int | None = 8
    per_channel: bool = True
    symmetric: bool = False
    power_of_two: bool = False
    observer: str = "minmax"
    group: int | None = None
    target: str = "onnxruntime"

    def __post_init__(self) -> None:
        self._check_bits("weight_bits", WEIGHT_BITS)
        self._check_bits("activation_bits", ACTIVATION_BITS)
        for name in ("per_channel", "symmetric", "power_of_two"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name, known in (("observer", OBSERVERS), ("target", TARGETS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if self.group is not None and (not isinstance(self.group, int) or self.group < 2):
            raise ValueError(f"group must be a number of weights of at least 2, or None, not {self.group!r}")
        if self.power_of_two and self.observer == "learned":
            raise ValueError("power_of_two: a scale that is learned takes any value; use another observer")
        if self.target == "tensorrt" and self.weight_bits not in (4, 8):
            raise ValueError(f"weight_bits: TensorRT takes 8 or 4, not {self.weight_bits}")

    def _check_bits(self, name: str, known: Collection[int | None]) -> None:
        bits = getattr(self, name)
        if bits not in known or (bits is not None and type(bits) is not int):
            listed = "2 to 8" if known is WEIGHT_BITS else "2 to 8, 16 or None"
            raise ValueError(f"{name} must be {listed}, not {bits!r}")

    @property
    def has_symmetric_activations(self) -> bool:
        return self.symmetric or self.target == "tensorrt"

    @property
    def has_integer_biases(self) -> bool:
        """Whether biases are stored in 32 bits with the scale of the products that they are added to."""
        small = self.activation_bits is not None and self.activation_bits <= INTEGER_ARITHMETIC_BITS
        return small and self.target == "onnxruntime" and self.group is None

    def changed(self, where: str, changes: Any) -> Settings:
        """These settings with some others, as a mapping gives them."""
        if not isinstance(changes, Mapping):
            raise ValueError(f"{where} must be a mapping of settings, not {changes!r}")
        known = [field.name for field in dataclasses.fields(self)]
        _check_keys(where, changes, known)
        try:
            return dataclasses.replace(self, **changes)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


@dataclasses.dataclass(frozen=True)
class Plan:
    """The settings of each part of a model, by the paths of its modules; of the nearest module that has some."""

    default: Settings
    parts: Mapping[str, Settings]
    skipped: frozenset[str]

    def of(self, path: str) -> Settings | None:
        """The settings at a module; None where it is left in float."""
        names = path.split(".") if path else []
        chain = [".".join(names[:count]) for count in range(len(names), 0, -1)] + [""]
        if any(name in self.skipped for name in chain):
            return None
        return next((self.parts[name] for name in chain if name in self.parts), self.default)


def read_plan(model: nn.Module, settings: Mapping[str, Any], skip: Any, parts: Any, given: Mapping[str, Any]) -> Plan:
    """The settings as arguments or as the configuration ``given`` has them."""
    changed = {key: value for key, value in settings.items() if value is not getattr(Settings, key)}
    default = Settings(**{**{key: value for key, value in given.items() if key not in OTHER_KEYS}, **changed})
    modules = dict(model.named_modules())
    merged = {**_mapping("parts", given.get("parts")), **_mapping("parts", parts)}
    for name in merged:
        _check_name("parts", name, modules)
    named = {name: default.changed(f"parts[{name!r}]", changes) for name, changes in merged.items()}
    return Plan(default, named, _skipped([*_listed(given.get("skip")), *_listed(skip)], modules))


def read_config(config: Any) -> dict[str, Any]:
    """The keys of a configuration, which is a mapping or the path of a YAML file."""
    if config is None:
        return {}
    if isinstance(config, (str, os.PathLike)):
        try:
            import yaml  # noqa: PLC0415  (only those who have such a file need it)
        except ImportError as error:
            raise ValueError("config: a YAML file needs PyYAML: pip install 'onnxport[quant]'") from error
        try:
            config = yaml.safe_load(Path(config).read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            raise ValueError(f"config: {os.fspath(config)} is not YAML: {error}") from error
    known = [*(field.name for field in dataclasses.fields(Settings)), *OTHER_KEYS]
    given = _mapping("config", config)
    _check_keys("config", given, known)
    return given


def _check_keys(where: str, given: Collection[Any], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            raise ValueError(f"{where}: {key!r} is no setting{near(str(key), known)}; there are {', '.join(known)}")


def _mapping(what: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be a mapping, not {given!r}")
    return dict(given)


def _listed(skip: Any) -> list[Any]:
    if skip is None:
        return []
    if isinstance(skip, (str, type)):
        return [skip]
    if not isinstance(skip, Collection):
        raise ValueError(f"skip must be names and types of modules, not {skip!r}")
    return list(skip)


def _check_name(what: str, name: Any, modules: Mapping[str, nn.Module]) -> None:
    if name not in modules:
        raise ValueError(f"{what}: the model has no module {name!r}")


def _skipped(skip: Collection[Any], modules: Mapping[str, nn.Module]) -> frozenset[str]:
    found: set[str] = set()
    for entry in skip:
        if isinstance(entry, type) and issubclass(entry, nn.Module):
            found |= {name for name, module in modules.items() if isinstance(module, entry)}
        else:
            _check_name("skip", entry, modules)
            found.add(entry)
    return frozenset(found)
