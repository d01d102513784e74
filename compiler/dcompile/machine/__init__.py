"""Measures the machine that it runs on (`dcompile probe`): devices, what links them, and how fast both are."""
