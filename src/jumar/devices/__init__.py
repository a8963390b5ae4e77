"""The cards of this machine and who uses them: NPU, GPU, simulated, CPU slots."""
