"""Random numbers: their shapes and dtypes from the table, their distributions by the moments of many."""

from __future__ import annotations

import io

import pytest
import torch
from torch.nn import functional as nnf

import onnxport
from onnxport.graph.randomness import unsure_outputs
from onnxport.verification.runtime import Session
from tests.graph.captured import captured
from tests.ops.harness import ALL, FLOATS, INTEGERS, Case, F, table

LOW = (*FLOATS, torch.bfloat16)


PLAIN = (F("n", "c"),)
# ONNX Runtime 1.31 has no kernels for the random operators of opset 22.
RUNS_UNTIL = 21


def case(name, call, inputs=PLAIN, **settings):
    return Case(name, call, inputs, content=False, runs_until=RUNS_UNTIL, **settings)


CASES = [
    case("rand", lambda x: torch.rand(2, 3), graph=["RandomUniform"]),
    case("rand_dynamic", lambda x: torch.rand(x.shape[0], 3, dtype=x.dtype), dtypes=LOW),
    case("randn", lambda x: torch.randn(x.shape[1], x.shape[0], dtype=x.dtype), dtypes=LOW),
    case("rand_scalar", lambda x: torch.rand(())),
    case("rand_like", torch.rand_like, dtypes=LOW, graph=["RandomUniformLike"]),
    case("rand_like_dtype", lambda x: torch.rand_like(x, dtype=torch.float64)),
    case("randn_like", torch.randn_like, dtypes=LOW, graph=["RandomNormalLike"]),
    case("randn_like_of_integers", lambda x: torch.randn_like(x, dtype=torch.float32), dtypes=INTEGERS),
    case("randint", lambda x: torch.randint(5, (x.shape[0], 3)), graph=["RandomUniform", "Cast"]),
    case("randint_low", lambda x: torch.randint(-3, 5, (2, 3))),
    case("randint_large", lambda x: torch.randint(0, 2**40, (x.shape[0], 3))),
    case("randint_to_size", lambda x: torch.randint(0, x.shape[1], (x.shape[0],))),
    case("randint_like", lambda x: torch.randint_like(x, 5), dtypes=(*LOW, *INTEGERS)),
    case("randint_like_low", lambda x: torch.randint_like(x, -2, 5)),
    case("random", lambda x: x.clone().random_(), dtypes=(*LOW, *INTEGERS, torch.bool)),
    case("random_to", lambda x: x.clone().random_(5), dtypes=(*LOW, *INTEGERS)),
    case("random_from", lambda x: x.clone().random_(2, 7), dtypes=(*LOW, *INTEGERS)),
    case("bernoulli", torch.bernoulli, [F("n", "c", low=0, high=1)], dtypes=LOW),
    case("bernoulli_p", lambda x: torch.bernoulli(x, 0.3), dtypes=LOW),
    case("bernoulli_in_place", lambda x: x.clone().bernoulli_(0.3), dtypes=ALL),
    case("bernoulli_tensor", lambda x, p: x.clone().bernoulli_(p), [F("n", "c"), F("n", "c", low=0, high=1)]),
    case("multinomial", lambda x: torch.multinomial(x, 1), [F("n", 5, low=0.1, high=1)], dtypes=FLOATS),
    case("multinomial_vector", lambda x: torch.multinomial(x, 1), [F(5, low=0.1, high=1)]),
    case("multinomial_many", lambda x: torch.multinomial(x, 9, True), [F("n", 5, low=0.1, high=1)]),
    case("multinomial_distinct", lambda x: torch.multinomial(x, 3), [F("n", 5, low=0.1, high=1)], dtypes=LOW),
    case("normal", lambda x: torch.normal(x, 2.0), dtypes=LOW),
    case("normal_by_std", lambda x: torch.normal(1.0, x), [F("n", "c", low=0.1)]),
    case("normal_by_both", torch.normal, [F("n", "c"), F("n", "c", low=0.1)]),
    case("normal_broadcast", torch.normal, [F("n", "c"), F("c", low=0.1)]),
    case("normal_of_size", lambda x: torch.normal(1.0, 2.0, (x.shape[0], 3))),
    case("normal_in_place", lambda x: x.clone().normal_(1.0, 2.0), dtypes=LOW, graph=["RandomNormalLike"]),
    case("uniform", lambda x: x.clone().uniform_(1.0, 2.0), dtypes=LOW, graph=["RandomUniformLike"]),
    case("exponential", lambda x: x.clone().exponential_(2.0), dtypes=LOW),
    case("geometric", lambda x: x.clone().geometric_(0.4), dtypes=(*LOW, torch.int64)),
    case("log_normal", lambda x: x.clone().log_normal_(), dtypes=LOW),
    case("cauchy", lambda x: x.clone().cauchy_(), dtypes=LOW),
    case("randperm", lambda x: torch.randperm(5)),
    case("randperm_dynamic", lambda x: torch.randperm(x.shape[0]), dynamic_since=10),
    case("gumbel_softmax", lambda x: nnf.gumbel_softmax(x, hard=True, dim=1), since=9),
]

test_random = table(CASES)

DISTRIBUTIONS = {
    "rand": torch.rand_like,
    "randn": torch.randn_like,
    "randint": lambda x: torch.randint_like(x, -2, 5),
    "bernoulli": lambda x: torch.bernoulli(x * 0.3),
    "bernoulli_p": lambda x: torch.bernoulli(x, 0.3),
    "normal": lambda x: torch.normal(x, 2.0),
    "uniform": lambda x: x.clone().uniform_(1.0, 3.0),
    "exponential": lambda x: x.clone().exponential_(2.0),
    "geometric": lambda x: x.clone().geometric_(0.4),
    "log_normal": lambda x: x.clone().log_normal_(0.0, 0.3),
    "multinomial": lambda x: torch.multinomial(x[0, :3] * torch.tensor([1.0, 3.0, 2.0]), 100_000, True).float(),
    "multinomial_first": lambda x: torch.multinomial(x[:, :3] * torch.tensor([1.0, 3.0, 2.0]), 2)[:, 0].float(),
    "dropout": lambda x: nnf.dropout(x, 0.3, True),
    "dropout2d": lambda x: nnf.dropout2d(x.reshape(50_000, 4, 2), 0.3, True),
    "alpha_dropout": lambda x: nnf.alpha_dropout(x, 0.3, True),
    "feature_alpha_dropout": lambda x: nnf.feature_alpha_dropout(x.reshape(50_000, 4, 2), 0.3, True),
    "drop_path": lambda x: x.new_empty(100_000).bernoulli_(0.3),
    "rrelu": lambda x: nnf.rrelu(-x, 0.1, 0.6, True),
}


@pytest.mark.parametrize("opset", [9, 20])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name, opset):
    draw, x = DISTRIBUTIONS[name], torch.ones(100_000, 4)
    target = io.BytesIO()
    onnxport.export(draw, (x,), target, input_names=["x"], opset_version=opset, verify=False)
    (got,) = Session(target.getvalue()).run({"x": x})
    want = draw(x)
    spread = float(want.std())
    assert abs(float(got.mean() - want.mean())) < 0.03 * spread
    assert abs(float(got.std()) - spread) < 0.05 * spread
    assert float(got.min()) >= float(want.min()) - 2 * spread


@pytest.mark.parametrize("opset", [11, 20])
def test_permutation(opset):
    target = io.BytesIO()
    onnxport.export(
        lambda x: torch.randperm(50), (torch.ones(1),), target, input_names=["x"], opset_version=opset, verify=False
    )
    (got,) = Session(target.getvalue()).run({"x": torch.ones(1)})
    assert sorted(got.tolist()) == list(range(50)) != got.tolist()


HEADS, SEQUENCE = torch.rand(2, 2, 5, 4), torch.rand(5, 2, 4)
LSTM, GRU = (kind(4, 3, num_layers=2, dropout=0.5) for kind in (torch.nn.LSTM, torch.nn.GRU))
LAYER = torch.nn.GRU(4, 3)
LAYER.dropout = 0.5
HIDDEN_DRAWS = {
    "attention": (lambda x: nnf.scaled_dot_product_attention(x, x, x, dropout_p=0.5), HEADS),
    "attention_math": (lambda x: torch.ops.aten._scaled_dot_product_attention_math(x, x, x, None, 0.5)[0], HEADS),
    "lstm": (lambda x: LSTM(x)[0], SEQUENCE),
    "gru": (lambda x: GRU(x)[0], SEQUENCE),
}


@pytest.mark.parametrize("opset", [11, 20, 23])
@pytest.mark.parametrize("name", HIDDEN_DRAWS)
def test_dropout_inside_an_operator_is_not_compared(name, opset):
    call, x = HIDDEN_DRAWS[name]
    onnxport.export(call, (x,), io.BytesIO(), opset_version=opset)


@pytest.mark.parametrize("name", HIDDEN_DRAWS)
def test_dropout_inside_an_operator_is_random(name):
    call, x = HIDDEN_DRAWS[name]
    assert unsure_outputs(captured(call, x), [x]) == {0}


NO_DRAWS = {
    "attention": (lambda x: nnf.scaled_dot_product_attention(x, x, x), HEADS),
    "layer": (lambda x: LAYER(x)[0], SEQUENCE),
    "dropout": (lambda x: nnf.dropout(x, 0.5, False), SEQUENCE),
}


@pytest.mark.parametrize("name", NO_DRAWS)
def test_nothing_dropped_is_not_random(name):
    call, x = NO_DRAWS[name]
    assert not unsure_outputs(captured(call, x), [x])
