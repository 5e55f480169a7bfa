"""Simplification of the ONNX graph: one pass per file; each docstring says what the pass preserves.

In: an onnx_ir model. Out: the same model, changed in place. Imports onnx_ir alone.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnxport.optimize.passes.batch_norm import FoldBatchNorm
from onnxport.optimize.passes.broadcasts import DropExpands
from onnxport.optimize.passes.chains import MergeChains
from onnxport.optimize.passes.common_subexpressions import MergeCommonSubexpressions
from onnxport.optimize.passes.constant_folding import FoldConstants
from onnxport.optimize.passes.constant_trees import FoldConstantTrees
from onnxport.optimize.passes.dead_code import RemoveDeadCode
from onnxport.optimize.passes.gemm import FuseGemm
from onnxport.optimize.passes.no_ops import RemoveNoOps
from onnxport.optimize.passes.padding import FusePads
from onnxport.optimize.passes.quantization.biases import DropZeroBiases
from onnxport.optimize.passes.quantization.block_weights import StoreBlocks
from onnxport.optimize.passes.quantization.movement import MoveQuantizers
from onnxport.optimize.passes.quantization.weights import StoreIntegers
from onnxport.optimize.passes.ranges import ReadWholeAxes
from onnxport.optimize.passes.runtime.attended_sequences import AttendSequences
from onnxport.optimize.passes.runtime.ones_squeezed import SqueezeOnes
from onnxport.optimize.passes.runtime.residual_bias import AddBiasLast
from onnxport.optimize.passes.runtime.sequence_convolutions import ConvolveRows
from onnxport.optimize.passes.runtime.shared_heads import ShareHeads
from onnxport.optimize.passes.shared_weights import ShareConstants, ShareEqual, ShareWeights
from onnxport.optimize.passes.split_weights import SplitWeights
from onnxport.optimize.passes.static_targets import UseStaticTargets
from onnxport.optimize.passes.truths import DropTruths

__all__ = [
    "OPTIONAL",
    "AddBiasLast",
    "AttendSequences",
    "ConvolveRows",
    "DropExpands",
    "DropTruths",
    "DropZeroBiases",
    "FoldBatchNorm",
    "FoldConstantTrees",
    "FoldConstants",
    "FuseGemm",
    "FusePads",
    "MergeChains",
    "MergeCommonSubexpressions",
    "MoveQuantizers",
    "ReadWholeAxes",
    "RemoveDeadCode",
    "RemoveNoOps",
    "ShareConstants",
    "ShareEqual",
    "ShareHeads",
    "ShareWeights",
    "SplitWeights",
    "SqueezeOnes",
    "StoreBlocks",
    "StoreIntegers",
    "UseStaticTargets",
    "optimize",
    "pipeline",
]

# Folding a shape turns a Reshape into a no-op; removing it joins a chain, and so on. Two iterations are usually enough.
_ITERATIONS = 4


# What export(skip_passes=...) can leave out: choices of a form, which no other pass relies on. LeaveSizesOpen is a
# matter of the file alone, and done where it is written.
OPTIONAL = ("AddBiasLast", "AttendSequences", "ConvolveRows", "LeaveSizesOpen", "ShareHeads", "SqueezeOnes")


def optimize(
    model: ir.Model, *, fold_constants: bool = True, training: bool = False, skip: Collection[str] = ()
) -> None:
    """Simplifies a model in place; inputs, outputs and their names stay as they are.

    Args:
        model: The model; its subgraphs are simplified as well, its functions are left alone.
        fold_constants: Whether to compute at export what does not depend on the inputs.
        training: Whether the parameters will be trained on: then Dropout and BatchNormalization stay, and nothing that
            is computed from a parameter's present value goes into the graph.
        skip: Names of passes of `OPTIONAL` that are left out.
    """
    pipeline(fold_constants=fold_constants, training=training, skip=skip)(model)


def pipeline(
    *, fold_constants: bool = True, training: bool = False, skip: Collection[str] = ()
) -> ir.passes.Sequential:
    """The passes in their order.

    Memory is compared before batch norms are folded, so that tied weights count as shared; content is compared after
    that, because accidental equality must not prevent folding. Products are fused before constants are folded, so that
    weights are stored as the user's modules have them.
    """
    simplify: list[ir.passes.PassBase] = [
        RemoveNoOps(training=training),
        MergeChains(),
        DropExpands(),
        FuseGemm(),
        FusePads(),
    ]
    if fold_constants:
        simplify += [UseStaticTargets(), SplitWeights(training=training), FoldConstants(training=training)]
    inference: list[ir.passes.PassBase] = [
        StoreIntegers(),
        StoreBlocks(),
        FoldBatchNorm(),
        DropZeroBiases(),
        MoveQuantizers(),
    ]
    return ir.passes.Sequential(
        RemoveDeadCode(),
        ShareWeights(),
        *([] if training else [StoreBlocks()]),
        ir.passes.PassManager(simplify, steps=_ITERATIONS),
        *([] if training else inference),
        ReadWholeAxes(),
        DropTruths(),
        *([] if "ShareHeads" in skip else [ShareHeads()]),
        *([] if training or "ConvolveRows" in skip else [ConvolveRows()]),
        ShareConstants(),
        MergeCommonSubexpressions(),
        *([FoldConstantTrees(training=training)] if fold_constants else []),
        ir.passes.PassManager(simplify, steps=_ITERATIONS),
        *([] if "AttendSequences" in skip else [AttendSequences()]),
        *([] if training or "AddBiasLast" in skip else [AddBiasLast()]),
        *([] if "SqueezeOnes" in skip else [SqueezeOnes()]),
        RemoveDeadCode(),
    )
