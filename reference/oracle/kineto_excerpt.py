#!/usr/bin/env python3
"""Writes reference/published/v100_resnet50_trace.json.gz: one step of a trace of PyTorch's profiler
on a GPU, and prints what tests/tools/predict/trace_test.cpp expects of it.

Run:   python3 reference/oracle/kineto_excerpt.py worker0.1623143566756.pt.trace.json.gz
Needs: that file, of github.com/pytorch/kineto at the parent of commit 9defae0c, in the folder
       tb_plugin/samples/resnet50_num_workers_0 (BSD licence): ResNet-50 of torchvision, batch 32,
       fp32, SGD, by PyTorch 1.9 on a V100 (80 multiprocessors), in June 2021.

Of the step of median duration all events of the host and all kernels that it launched stay, with
the fields that gx reads; of the other steps their annotations stay. What is expected is worked out
here from the whole file, another way: by times alone, where gx tells passes by sequence numbers.
"""
import gzip
import json
import math
import pathlib
import sys

KEPT = ('correlation', 'device', 'Input Dims', 'Sequence number', 'Fwd thread id')
TO = pathlib.Path(__file__).parents[1] / 'published' / 'v100_resnet50_trace.json.gz'

events = [e for e in json.load(gzip.open(sys.argv[1]))['traceEvents'] if e.get('ph') == 'X']
steps = sorted((e for e in events if e['name'].startswith('ProfilerStep#')),
               key=lambda e: e['dur'])
step = steps[(len(steps) - 1) // 2]
host = [e for e in events if e['cat'] in ('Operator', 'Runtime') and
        step['ts'] <= e['ts'] and e['ts'] + e['dur'] <= step['ts'] + step['dur']]
launched = {e['args']['correlation']: e['ts'] for e in host if e['cat'] == 'Runtime'}
kernels = sorted((e for e in events
                  if e['cat'] == 'Kernel' and e['args']['correlation'] in launched),
                 key=lambda e: e['ts'])

excerpt = [{**{field: e[field] for field in ('ph', 'cat', 'name', 'pid', 'ts', 'dur')},
            'args': {name: value for name, value in e['args'].items() if name in KEPT}}
           for e in [*(s for s in steps if s is not step), *host, *kernels]]
text = json.dumps({'schemaVersion': 1, 'traceEvents': excerpt}, separators=(',', ':'))
TO.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
print(f'{TO}: {len(excerpt)} events, {TO.stat().st_size} bytes')

backward = min(e['ts'] for e in host if e['args'].get('Fwd thread id', 0) > 0)
update = next(e['ts'] for e in host if e['name'].startswith('Optimizer.step#'))
gradients = [e for e in host if e['name'] == 'torch::autograd::AccumulateGrad']
spans = [(e['ts'], e['ts'] + e['dur'], launched[e['args']['correlation']]) for e in kernels]
first = {'forward': spans[0][0], 'backward': min(s[0] for s in spans if s[2] >= backward),
         'update': min(s[0] for s in spans if s[2] >= update)}
end = max(s[1] for s in spans)
lasts = first['update'] - first['backward']
ready = [(max(s[1] for s in spans if s[2] <= g['ts'] + g['dur']) - first['backward']) / lasts
         for g in gradients]
print(f'{step["name"]}: {step["dur"]} us; forward {first["backward"] - first["forward"]}, '
      f'backward {lasts}, update {end - first["update"]}, '
      f'between kernels {end - spans[0][0] - sum(s[1] - s[0] for s in spans)}')
print(f'{len(gradients)} gradients of '
      f'{sum(math.prod(g["args"]["Input Dims"][0]) for g in gradients)} elements, '
      f'ready at {ready[0]:.6f}, {ready[80]:.6f} (81st), {ready[-1]:.6f} of backward')
