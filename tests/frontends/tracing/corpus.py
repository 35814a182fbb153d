"""Small array functions as people write them in notebooks, with the shapes they take: a corpus for the tracing frontend."""

from collections.abc import Callable
from typing import Any

import numpy as np

Example = tuple[Callable[..., Any], tuple[Any, ...]]


def softmax(x):  # type: ignore[no-untyped-def]
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, scale, shift):  # type: ignore[no-untyped-def]
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def sigmoid(x):  # type: ignore[no-untyped-def]
    return 1 / (1 + np.exp(-x))


def mlp(x, w1, b1, w2):  # type: ignore[no-untyped-def]
    return np.tanh(x @ w1 + b1) @ w2


def attention(q, k, v):  # type: ignore[no-untyped-def]
    scores = np.einsum("bqd,bkd->bqk", q, k) / np.sqrt(q.shape[-1])
    mask = np.tril(np.ones((q.shape[1], k.shape[1]), bool))
    return softmax(np.where(mask, scores, -1e9)) @ v


def lstm_cell(x, h, c, w):  # type: ignore[no-untyped-def]
    i, f, g, o = np.split(np.concatenate([x, h], axis=1) @ w, 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def unrolled(x, w):  # type: ignore[no-untyped-def]
    state = np.zeros_like(x[0])
    seen = []
    for step in x:
        state = np.tanh(step + state @ w)
        seen.append(state)
    return np.stack(seen, axis=1)


def laplacian(u):  # type: ignore[no-untyped-def]
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def huber(x):  # type: ignore[no-untyped-def]
    a = np.abs(x)
    return np.where(a < 1, 0.5 * x * x, a - 0.5).mean()


def cross_entropy(logits, labels):  # type: ignore[no-untyped-def]
    one_hot = labels[:, None] == np.arange(logits.shape[1])
    return -(one_hot * np.log(softmax(logits))).sum(1).mean()


def rope(x):  # type: ignore[no-untyped-def]
    a, b = x[..., ::2], x[..., 1::2]
    t = np.arange(x.shape[0])[:, None] / 10 ** (np.arange(x.shape[1] // 2) * 0.5)
    return np.stack([a * np.cos(t) - b * np.sin(t), a * np.sin(t) + b * np.cos(t)], axis=-1).reshape(x.shape)


def pool(image):  # type: ignore[no-untyped-def]
    h, w = image.shape
    return image.reshape(h // 2, 2, w // 2, 2).max(axis=(1, 3))


def mandelbrot(c):  # type: ignore[no-untyped-def]
    z = np.zeros_like(c)
    for _ in range(5):
        z = z * z + c
    return z


def polar(x, y):  # type: ignore[no-untyped-def]
    return {"r": np.hypot(x, y), "phi": np.arctan2(y, x)}


def nested(parameters, x):  # type: ignore[no-untyped-def]
    for w, b in parameters["layers"]:
        x = np.maximum(x @ w + b, 0)
    return x, {"norm": np.linalg.norm(x, axis=-1)}


def gathered(x, index):  # type: ignore[no-untyped-def]
    return x[index], np.take(x, index, axis=1), x[:, [0, 2]], x[-1], x[1, -2:], np.sort(x, 0), np.argsort(x, -1)


def writes_a_slice(x):  # type: ignore[no-untyped-def]
    y = x.copy()
    row, taken = y[1], np.take(y, 1, 0)
    y[1:, 0] = 7
    y[0] += 1
    y[:, 1:] = y[:, :-1]
    return y, row, taken


def writes_in_place(x):  # type: ignore[no-untyped-def]
    y = x * 2
    view = y.T
    y -= 1
    y *= y
    np.add(y, 1, out=y)
    return view


def writes_its_argument(x):  # type: ignore[no-untyped-def]
    x[0, :2] = x[1, :2] + 1
    return x.sum()


def numbers_stay(x):  # type: ignore[no-untyped-def]
    first, view, total = x[0], x[..., 1], x.sum()
    before, same, reshaped, exact = total, first, np.reshape(first, (1,)), x[2]
    x[0] = x[3]
    x[3] = first
    x += 1
    x[2] = exact
    total -= first
    first *= 2
    view *= 3
    other = kept = same.astype(x.dtype)
    other += 1
    return x, first, same, view, total, before, reshaped, -x[1], kept


def array_api(x):  # type: ignore[no-untyped-def]
    xp = x.__array_namespace__()
    y = xp.concat([xp.ones((1, x.shape[1])), x, xp.zeros((1, x.shape[1]))], axis=0)
    z = xp.permute_dims(xp.expand_dims(y, axis=0), (2, 0, 1))
    return (z * xp.arange(y.shape[0], dtype=xp.float64) + xp.linspace(0, 1, 5), xp.matrix_transpose(xp.eye(5, 4)), xp.pow(y, 2))


def scalars(a, b):  # type: ignore[no-untyped-def]
    return a * b + 1, np.sum(a), a[None, None] / b, np.where(a > b, a, b)


def constant_results(x):  # type: ignore[no-untyped-def]
    return x, 3, (x.shape[0] * 1.5, np.arange(3))


S, T = (3, 4), (2, 3, 4)
SMALL = np.array([0, 2, 1])
P = {"layers": [(S, (4,)), ((4, 5), (5,))]}

CORPUS: list[Example] = [
    (softmax, (S,)), (layer_norm, (S, (4,), (4,))), (sigmoid, (S,)), (mlp, (S, (4, 6), (6,), (6, 2))), (attention, (T, T, T)),
    (lstm_cell, ((2, 3), (2, 4), (2, 4), (7, 16))), (unrolled, ((5, 2, 3), (3, 3))), (laplacian, ((6, 7),)), (huber, (S,)),
    (cross_entropy, (S, SMALL)), (rope, ((5, 6),)), (pool, ((4, 6),)), (mandelbrot, (S,)), (polar, (S, S)), (nested, (P, (2, 3))),
    (gathered, (T, np.array([1, 0, -1]))), (writes_a_slice, (S,)), (writes_in_place, (S,)), (writes_its_argument, (S,)),
    (numbers_stay, ((5,),)), (array_api, ((3, 4),)), (scalars, ((), ())), (constant_results, (S,)),
]  # fmt: skip
"""Functions and what they take: shapes of float arrays, or arrays."""
