"""Graphs of one model that does something else under a condition, as one graph with an If.

In: graphs that read the same inputs. Out: one graph. Imports `graph`.
"""

from onnxport.graph.branches.joined import CannotMerge, joined
from onnxport.graph.branches.lifted import Lifted, NotLifted, lifted, lowered

__all__ = ["CannotMerge", "Lifted", "NotLifted", "joined", "lifted", "lowered"]
