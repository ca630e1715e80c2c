"""The timing model: plays a trace on a GPU model as a discrete-event simulation and yields a timeline.

Each file holds the rules of one component; `contract.md` beside them is their specification.
"""
