"""Topology in: text of various formats -> values. Start at `read.py`, which picks the reader.

`slurm.py`, `topograph.py`, `ibnetdiscover.py` and `own_yaml.py` give a `Topology` (`tree.py` folds switches into
levels); `compare.py` says where it and the known nodes differ; `own_yaml.py` and `write.py` are the way back.
`smi_matrix.py` and `nccl_xml.py` read what is inside one node; `near.py` says which cores are near which GPUs. May
import values and spec; PyYAML and the XML parser are loaded by the readers that need them, when they are called.
"""
