"""Runs code under real CUDA-graph capture, in child processes. The only layer that imports torch, warp or mujoco.

Importing this package imports none of them.
"""
