"""What this node has: cores, memory, GPUs and how they are joined. Start at `survey.py`.

`host.py` reads the kernel, `nvml.py` asks the driver, `simulated.py` pretends (descriptions in `machines/`). May import
`gsched`; nothing else of the agent.
"""
