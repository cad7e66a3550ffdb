"""Run the experiments of the paper: ablations, layers, speed, memory and minimal pairs."""
