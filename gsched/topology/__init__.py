"""Topology in: text of various formats -> values. Start at `read.py`, which picks the reader.

`slurm.py`, `topograph.py`, `ibnetdiscover.py` and `own_yaml.py` give a `Topology` (`tree.py` folds switches into
levels); `compare.py` says where it and the known nodes differ; `own_yaml.py` and `write.py` are the way back. May
import values and spec; PyYAML is loaded by the readers that need it, when they are called.
"""
