#!/usr/bin/env python3
"""Runs a model in onnxruntime: run_onnx.py MODEL.onnx RUN.safetensors LOGITS.safetensors, where RUN
holds "images". Without arguments it fails if a module is missing."""
import sys

import onnxruntime
from safetensors.numpy import load_file, save_file

if len(sys.argv) > 1:
    model, run, logits = sys.argv[1:]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found = session.run(["logits"], {"images": load_file(run)["images"]})[0]
    save_file({"logits": found}, logits)
