"""Dropout: what it drops is random, what it does in evaluation is not."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as nnf

import onnxport
from tests.ops.harness import FLOATS, B, Case, F, table

LOW = (*FLOATS, torch.bfloat16)
IMAGE = [F("n", "c", "h", 5)]


def training(name, call, inputs=IMAGE, **settings):
    return Case(name, call, inputs, content=False, **settings)


CASES = [
    Case("dropout_eval", lambda x: nnf.dropout(x, 0.3, False) * 2, IMAGE, graph=["Mul"]),
    training("dropout", lambda x: nnf.dropout(x, 0.3, True), dtypes=LOW, graph=["Dropout"]),
    training("dropout_in_place", lambda x: nnf.dropout(x.clone(), 0.3, True, True), graph=["Dropout"]),
    Case("dropout_nothing", lambda x: nnf.dropout(x, 0.0, True) * 2, IMAGE),
    Case("dropout_all", lambda x: nnf.dropout(x, 1.0, True), IMAGE),
    Case("dropout_backward", lambda x, m: torch.ops.aten.native_dropout_backward(x, m, 1.25), [F("n", 4), B("n", 4)]),
    training("dropout_module", nn.Dropout(0.4), keywords={"training": onnxport.TrainingMode.TRAINING}),
    training("dropout1d", lambda x: nnf.dropout1d(x, 0.3, True), [F("n", "c", 5)], runs_until=21),
    training("dropout2d", lambda x: nnf.dropout2d(x, 0.3, True), dtypes=LOW, runs_until=21),
    training("dropout3d", lambda x: nnf.dropout3d(x, 0.3, True), [F("n", "c", 2, 3, 4)], runs_until=21),
    Case("dropout2d_eval", lambda x: nnf.dropout2d(x, 0.3, False) * 2, IMAGE),
    Case("dropout2d_all", lambda x: nnf.dropout2d(x, 1.0, True), IMAGE),
    training("alpha_dropout", lambda x: nnf.alpha_dropout(x, 0.3, True), dtypes=LOW),
    Case("alpha_dropout_eval", lambda x: nnf.alpha_dropout(x, 0.3, False) * 2, IMAGE),
    Case("alpha_dropout_all", lambda x: nnf.alpha_dropout(x, 1.0, True), IMAGE),
    training("feature_alpha_dropout", lambda x: nnf.feature_alpha_dropout(x, 0.3, True), dtypes=LOW, runs_until=21),
    Case("feature_alpha_dropout_eval", lambda x: nnf.feature_alpha_dropout(x, 0.3, False) * 2, IMAGE),
    training("native_dropout", lambda x: torch.native_dropout(x, 0.3, True), dtypes=LOW, graph=["Dropout"]),
    Case("native_dropout_eval", lambda x: torch.native_dropout(x, 0.3, False), IMAGE),
    Case("native_dropout_all", lambda x: torch.native_dropout(x, 1.0, True), IMAGE),
]

test_dropout = table(CASES)
