"""What the experiments run and measure, a file for each: kernels, points with formula and simulation, explanations.

The scripts in `experiments/` hold the choice of sizes, the tables and the figures. What is a formula for any kernel is
in `gpusim_des.analytic`; what is said of any difference is in `gpusim_des.explanations`.
"""
