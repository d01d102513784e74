"""dcompile: check, plan and run diffusion pipelines on more than one device."""

__version__ = "0.1.0"
