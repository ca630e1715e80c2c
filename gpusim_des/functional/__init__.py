"""The functional executor: runs kernels, gets their results right, counts what a GPU would do."""
