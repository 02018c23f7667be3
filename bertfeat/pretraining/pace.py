"""How long a step of a training takes, found out on a copy of its module."""

import time
from copy import deepcopy

import numpy as np
import torch

from bertfeat.pretraining.training import CLIPPED_TO, TrainingTask


def seconds_a_step(task: TrainingTask, budget: float) -> tuple[float, float]:
    """Seconds and tokens of a step, measured on a copy of the module for about so many seconds."""
    module = deepcopy(task.module).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-9)
    times, tokens, begun = [], 0, time.perf_counter()
    for step in range(1 << 20):
        started = time.perf_counter()
        rows = [task.examples[(step * task.batch_size + at) % len(task.examples)] for at in range(task.batch_size)]
        batch = {name: values.to(module.device) for name, values in task.collator(rows).items()}
        torch.autograd.backward(task.loss(module, batch).total)
        torch.nn.utils.clip_grad_norm_(module.parameters(), CLIPPED_TO)
        optimizer.step()
        optimizer.zero_grad()
        if module.device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
        tokens += int(batch["attention_mask"].sum())
        if step >= 2 and time.perf_counter() - begun > budget:
            break
    return float(np.mean(times[1:])), tokens / len(times)
