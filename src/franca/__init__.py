"""Franca: one durable job server that speaks the job-queue protocols you already use."""

__version__ = "0.1.0"
