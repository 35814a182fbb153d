"""What a statement of a random program for torch may be, with holes for what it is about.

`{x}`, `{y}`, `{z}` are tensors, `{m}` a mask, `{d}`, `{e}` dimensions, `{ds}` several, `{p}` an order of them, `{k}` a flag, `{i}` an
index, `{n}`, `{h}` lengths, `{q}`, `{q1}` an extent of -1 or 1 a dimension, `{t}` an element type; `{a}`, `{b}`, `{c}` new names.
"""

from typing import Final

_UNARY: Final = (
    "torch.relu({x})", "torch.tanh({x})", "torch.sigmoid({x})", "-{x}", "torch.abs({x})", "torch.sin({x})",
    "torch.cos({x})", "torch.sqrt(torch.abs({x}))", "torch.rsqrt(torch.abs({x}) + 1)", "torch.exp(-torch.abs({x}))",
    "torch.erf({x})", "torch.log1p(torch.abs({x}))", "torch.reciprocal(torch.abs({x}) + 1)", "torch.square({x})",
    "torch.nn.functional.gelu({x})", "torch.nn.functional.silu({x})", "torch.nn.functional.leaky_relu({x}, 0.1)",
    "torch.nn.functional.hardswish({x})", "torch.nn.functional.elu({x})", "torch.nn.functional.softplus({x})",
    "torch.clamp({x}, -1, 1)", "torch.clamp({x}, min=0)", "{x} + 1", "{x} * 0.5", "1 - {x}", "{x} / 2", "{x} ** 2",
    "{x} * 3", "2.5 - {x}", "torch.nn.functional.hardtanh({x})", "torch.expm1(-torch.abs({x}))",
    "torch.nn.functional.gelu({x}, approximate='tanh')", "torch.nan_to_num({x})", "torch.isnan({x})",
)  # fmt: skip
_STEPS: Final = (
    "torch.floor({x})", "torch.round({x})", "torch.ceil({x})", "torch.sign({x})", "{x} > 0.1", "{x} <= 0", "{x} != 1",
    "torch.logical_not({x})", "torch.trunc({x})", "{x} // 2", "{x} % 3", "torch.bitwise_not({x})", "{x} == 0",
    "torch.frac({x})",
)  # fmt: skip
_BINARY: Final = (
    "{x} + {y}", "{x} - {y}", "{x} * torch.tanh({y})", "{x} * {y}", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})",
    "torch.add({x}, {y}, alpha=2)", "torch.where({m}, {x}, {y})", "{x} / (torch.abs({y}) + 1)", "torch.atan2({x}, {y})",
    "torch.lerp({x}, {y}, 0.25)", "torch.addcmul({x}, {y}, {x}, value=0.5)", "torch.sub({x}, {y}, alpha=3)",
    "torch.where({m}, {x}, 0.5)", "torch.where({m}, 1.0, {y})", "{x}.masked_fill({m}, 0.25)", "torch.hypot({x}, {y})",
)  # fmt: skip
_COMPARE: Final = (
    "{x} > {y}", "{x} <= {y}", "{x} == {y}", "{x} & {y}", "{x} | {y}", "{x} ^ {y}", "torch.logical_and({x}, {y})",
    "torch.logical_or({x}, {y})", "torch.fmod({x}, torch.abs({y}) + 1)", "torch.remainder({x}, torch.abs({y}) + 1)",
    "{x} // (torch.abs({y}) + 1)",
)  # fmt: skip
_CONVERT: Final = ("{x}.float()", "{x}.to({t})", "{x}.to({y}.dtype)", "{x}.type_as({y})", "{x}.double()")
_REDUCE: Final = (
    "{x}.sum({d}, keepdim={k})", "{x}.mean({d}, keepdim={k})", "{x}.amax({d}, keepdim={k})", "{x}.amin({d}, keepdim={k})",
    "{x}.sum()", "{x}.mean()", "{x}.max()", "{x}.min()", "{x}.sum({ds}, keepdim={k})", "{x}.mean({ds}, keepdim={k})",
    "{x}.amax({ds}, keepdim={k})", "torch.var({x}, {d}, unbiased=False, keepdim={k})", "torch.std({x}, {d}, keepdim={k})",
    "{x}.any({d}, keepdim={k})", "{x}.all({d}, keepdim={k})", "{x}.any()", "{x}.argmax({d}, keepdim={k})",
    "{x}.argmin({d}, keepdim={k})", "torch.logsumexp({x}, {d}, keepdim={k})", "{x}.norm(2, {d}, keepdim={k})",
    "torch.linalg.vector_norm({x}, 2, {ds}, {k})", "torch.tanh({x}).prod({d}, keepdim={k})", "{x}.cumsum({d})",
    "torch.logsumexp({x}, {ds}, keepdim={k})", "{x}.sum({d}, keepdim={k}, dtype=torch.float64)",
    "{x} - {x}.mean({d}, keepdim=True)", "{x} / ({x}.norm(2, {d}, keepdim=True) + 1)", "{x}.prod()", "{x}.argmax()",
    "torch.linalg.vector_norm({x}, 1, {ds}, {k})", "torch.var({x}, {ds}, correction=1, keepdim={k})",
    "torch.count_nonzero({x}, {d})", "{x} - {x}.amax({ds}, keepdim=True)",
)  # fmt: skip
_NORM: Final = (
    "torch.softmax({x}, {d})", "torch.log_softmax({x}, {d})", "torch.nn.functional.layer_norm({x}, [{x}.size(-1)])",
    "torch.nn.functional.layer_norm({x}, [{x}.size(-1)], {y}, {z})", "torch.nn.functional.group_norm({x}, {n})",
    "torch.nn.functional.batch_norm({x}, {y}, torch.abs({z}))", "torch.rms_norm({x}, [{x}.size(-1)])",
    "torch.nn.functional.layer_norm({x}, [{x}.size(-2), {x}.size(-1)])", "torch.nn.functional.softmax({x}, {d})",
    "torch.softmax({x}, {d}, dtype=torch.float32)", "torch.nn.functional.instance_norm({x})",
    "torch.nn.functional.normalize({x}, 2.0, {d})", "torch.exp({x} - {x}.amax({d}, keepdim=True))",
)  # fmt: skip
_VIEW: Final = (
    "{x}.transpose({d}, {e})", "{x}.permute({p})", "{x}.t()", "{x}.select({d}, {i})", "{x}[{i}]", "{x}.unsqueeze({d})",
    "{x}.squeeze({d})", "{x}.expand_as({y})", "{x}.flatten()", "{x}.view(-1)", "{x}.reshape({x}.size(0), -1)",
    "{x}.narrow({d}, 0, 1)", "{x}[..., {i}]", "{x}[::2]", "{x}[..., 1:]", "{x}[:, :{n}]", "{x}.view({x}.size(0), -1)",
    "{x}.unsqueeze(0).expand(2, {q})", "{x}.reshape({y}.shape)", "{x}.view_as({y})", "{x}.diagonal()", "{x}.flip({d})",
    "{x}.contiguous()", "{x}.clone()", "{x}.movedim({d}, {e})", "{x}[:, None]", "{x}.squeeze()", "{x}.flatten({d})",
    "{x}.unflatten({d}, (-1, 1))", "{x}[1:]", "{x}[..., -1]", "{x}.reshape(-1)", "{x}.mT", "{x}.detach()",
    "{x}.repeat(2, {q1})",
)  # fmt: skip
SPLIT: Final = (
    ("{a}, {b} = {x}.chunk(2, {d})", 2), ("{a}, {b} = {x}.split({h}, {d})", 2), ("{a}, {b}, {c} = {x}.chunk(3, {d})", 3),
    ("{a}, {b} = {x}.unbind({d})", 2), ("{a}, {b} = {x}.max({d}, keepdim={k})", 2), ("{a}, {b} = torch.min({x}, {d})", 2),
    ("{a}, {b} = torch.var_mean({x}, {d}, unbiased=False, keepdim={k})", 2), ("{a}, {b}, {c} = {x}.unbind({d})", 3),
    ("{a}, {b}, {c} = torch.native_layer_norm({x}, [{x}.size(-1)], None, None, 1e-5)", 3),
    ("{a}, {b} = {x}.tensor_split(2, {d})", 2), ("{a}, {b} = {x}.split_with_sizes([1, {h}], {d})", 2),
)  # fmt: skip
_JOIN: Final = (
    "torch.cat([{x}, {y}], {d})", "torch.stack([{x}, {y}], {d})", "torch.cat([{x}, {x} + 1, {y}], {d})",
    "torch.cat([torch.relu({x}), {x} * 2], {d})", "torch.stack([torch.tanh({x}), {x}, {x} - 1], {d})",
    "torch.cat([{x}, {y}, {z}])", "torch.cat({x}.chunk(2, {d})[::-1], {d})", "torch.stack({x}.unbind({d}), -1)",
)  # fmt: skip
_MAKE: Final = (
    "torch.zeros_like({x})", "torch.ones_like({x})", "torch.full_like({x}, 0.5)", "torch.zeros({x}.size(0), 3)",
    "torch.arange({x}.size(-1))", "{x} * {x}.size(0)", "torch.zeros({x}.shape, dtype={x}.dtype)", "{x} / {x}.numel()",
    "torch.tril(torch.ones({x}.size(-1), {x}.size(-1)))", "{x}.new_zeros({x}.shape)",
)  # fmt: skip
_OTHER: Final = ("{x} @ {y}", "torch.nn.functional.linear({x}, {y})", "torch.matmul({x}, {x}.mT)", "{x} + n", "{x} * n")
WRITE: Final = (
    "{x}.add_({y})", "{x}.mul_(0.5)", "{x}.relu_()", "{x}.sigmoid_()", "{x}.tanh_()", "{x}.fill_(0.25)", "{x}.zero_()",
    "{x}.clamp_(-1, 1)", "{x}.copy_({y})", "{x}[0].copy_({y})", "{x}[0] = 0.5", "{x}[:, 0].mul_(2)", "{x} += {y}", "{x} *= 0.5",
    "{x}[..., 0] += 1", "{x}.masked_fill_({m}, 0.5)", "{x}.transpose({d}, {e}).add_(1)", "{x}.div_(2)", "{x}.sub_({y})",
    "{x}[::2] = 1", "{x}[..., 1:] -= 0.5", "{x}.neg_()", "{x}.unsqueeze_({d})", "{x}[1:].copy_({y})", "{x}.select({d}, 0).copy_({y})",
    "{x}.view(-1).add_(1)", "{x}.chunk(2, {d})[0].add_(1)", "{x}[:, 0] = {x}.sum(-1)", "{x}.addcmul_({y}, {y})", "{x} -= {x}.mean()",
    "{x}[{m}] = 0.5", "{x}[{m}] += 1", "{x}.cumsum_({d})", "{x}.diagonal().fill_(1)",
    "{x}.index_fill_({d}, torch.zeros(1, dtype=torch.long), 0.5)",
    "{x}.transpose_({d}, {e})", "{x}.squeeze_()", "{x}.exp_().clamp_(max=9.0)", "{x}.narrow({d}, 0, 1).zero_()", "{x}[-1] = {x}[0]",
    "{x}.index_put_([torch.zeros(1, dtype=torch.long)], {x}[:1] * 0.5)", "torch.tanh({x}, out={x})", "{x}.t_()", "{x}[..., ::2] *= -1",
    "{x}.unbind({d})[0].add_(1)", "{x}.view(-1)[:2].sqrt_()", "{x}.expand_as({x}).mul_(0.5)",
    "{x}.permute({p}).copy_({x}.permute({p}) + 1)",
    "{x}.copy_({x}.flip({d}))", "{x}[1:] = {x}[:-1].clone()", "{x}.detach().add_(0.5)",
    "{x}.scatter_({d}, torch.zeros({x}.shape, dtype=torch.long), 0.5)",
    "{x}.lerp_({y}, 0.5)", "{x}.logical_not_()", "{x}.floor_()", "{x}.pow_(2)", "{x}.tril_()", "{x}.chunk(2, {d})[-1].relu_()",
    "{x}.masked_fill_({x} > 0, 0.25)", "{x}.flatten()[0] = 2", "{x}.reshape(-1).add_(1)",
    "{x}.contiguous().add_(1)", "{x}.to({x}.dtype).sub_(1)",
)  # fmt: skip
_MOVE: Final = (
    "{x}.index_select({d}, torch.arange({x}.size({d})).flip(0))", "{x}.gather({d}, {x}.argsort({d}))", "{x}.roll(1, {d})",
    "{x}.masked_select({m})", "{x}[{m}]", "torch.nn.functional.pad({x}, [1, 1])", "{x}.repeat_interleave(2, {d})",
    "{x}.take(torch.zeros(2, dtype=torch.long))", "{x}.cumprod({d})", "torch.tril({x})", "torch.triu({x}, 1)",
    "torch.nn.functional.pad({x}, [0, 2], value=0.5)", "torch.outer({x}.flatten(), {y}.flatten())", "{x}[:, [0, 0]]",
    "torch.nn.functional.embedding(torch.arange(2), {x})", "{x}[torch.arange({x}.size(0))]", "{x}.sort({d})[0]",
    "torch.nn.functional.dropout({x}, 0.5, False)", "torch.nn.functional.avg_pool1d({x}, 2)", "{x}.nonzero().sum(0)",
    "torch.nn.functional.max_pool1d({x}, 2)", "torch.nn.functional.conv1d({x}, {y})", "torch.einsum('...i,...i->...', [{x}, {y}])",
    "{x}.scatter_add({d}, torch.zeros({x}.shape, dtype=torch.long), {x})", "torch.nn.functional.interpolate({x}, scale_factor=2.0)",
    "{x}.unfold({d}, 1, 1)", "torch.cdist({x}, {x})", "{x}.index_add(0, torch.zeros({x}.size(0), dtype=torch.long), {x})",
    "torch.addmm({x}, {y}, {z})", "torch.bmm({x}, {x}.mT)", "{x}.topk(1, {d})[0]", "torch.tanh({x}, out=torch.empty_like({x}))",
    "torch.add({x}, {y}, out=torch.zeros_like({x}))", "{x}.as_strided({x}.shape, {x}.stride(), {x}.storage_offset())",
    "{x}.movedim(0, -1).contiguous()", "{x}.expand(2, {q}).contiguous()", "{x}[None, ..., None]", "{x}.rot90(1, [0, -1])",
    "{x}.real", "torch.where({m}, {x}, {x}.new_zeros(1))", "{x}.to({x}.dtype)",
    "{x}.swapaxes({d}, {e})", "{x}.moveaxis({d}, {e})", "{x}.ravel()", "{x}.broadcast_to({y}.shape)",
    "{x}.select_scatter({x}.select({d}, 0), {d}, 0)",
    "{x}.diff(dim={d})", "{x}.tile([2])", "{x}.narrow_copy({d}, 0, 1)", "torch.atleast_2d({x})", "{x}.mH", "{x}.adjoint()",
)  # fmt: skip
_NUMBER: Final = (
    "{x} * float({y}.sum())", "{x} + {x}.size(-1) // 2", "{x} * ({x}.dim() - 1)", "{x} + float({y}.max()) / 7",
    "{x} - int({y}.numel() > 3)", "torch.full([2, n + 1], float({x}.mean()))", "{x}[: n + 1]", "{x}.narrow({d}, 0, min({x}.size({d}), 2))",
    "torch.zeros_like({x}) + {x}.stride()[0]", "{x} * (2.5 if flag else -1.5)", "{x}.sum(list(range({x}.dim())))", "{x} ** n",
    "torch.clamp({x}, max=float(n))", "torch.arange(n + 1) + n", "{x} + (n if n > 1 else 2)",
)  # fmt: skip
BLOCK: Final = (
    "{a} = {x}\nfor t in [{x}, {x} + 1]:\n    {a} = {a} * 0.5 + t",
    "{a} = {x}\nk = 0\nwhile k < n:\n    {a} = torch.tanh({a})\n    k += 1",
    "{a} = {x}\nfor i in range(4):\n    if i == n:\n        break\n    {a} = {a} * 0.5",
    "{a} = {x}\nfor i in range(3):\n    if i == n:\n        continue\n    {a} = {a} - {x}",
    "parts = [{x}]\nfor i in range(n):\n    parts.append(parts[-1] * 0.5)\n{a} = torch.cat(parts)",
    "pair = ({x}, {x} + 1)\n{a} = pair[1] * pair[0]", "table = {'u': {x}}\ntable['w'] = table['u'] * 2\n{a} = table['w']",
    "{a} = {x}\nfor i in range(2):\n    {a} = {a}.t() if {a}.dim() == 2 else {a} + 1",
    "{a}, {b} = {x}, {x} + 1\nfor i in range(n):\n    {a}, {b} = {b}, {a} * 0.5",
    "{a} = {x}.clone()\nfor i in range({a}.size(0)):\n    {a}[i] = {a}[i].relu() + i",
    "{a} = torch.zeros_like({x})\nfor i in range({x}.size(0)):\n    {a}[i].copy_({x}[-1 - i])",
    "if flag:\n    {a}, {b} = {x}, {x} * 2\nelse:\n    {a}, {b} = {x} - 1, {x}",
    "{a} = [t.tanh() for t in {x}.unbind(0)][-1]", "{a} = {x}.clone()\nparts = [{a}, {a}[:1]]\nparts[1].mul_(2)\n{a} = parts[0]",
    "{a} = {x}.clone()\n{b} = {a} if n > 1 else {a}.clone()\n{b} += 1", "assert {x}.dim() >= 0\n{a} = {x} * 1",
    "{a} = {x}.new_zeros({x}.shape)\ntorch.add({x}, {x}, out={a})", "{a} = torch.stack([t * 2 for t in [{x}, {x} - 1]])",
)  # fmt: skip

KINDS: Final[dict[str, tuple[float, tuple[str, ...]]]] = {
    "unary": (5, _UNARY), "steps": (0.7, _STEPS), "binary": (4, _BINARY), "compare": (0.7, _COMPARE),
    "convert": (0.5, _CONVERT), "reduce": (2.5, _REDUCE), "norm": (1.5, _NORM), "view": (4, _VIEW), "join": (1.2, _JOIN),
    "make": (0.5, _MAKE), "other": (0.4, _OTHER), "move": (1.5, _MOVE), "number": (0.5, _NUMBER),
}  # fmt: skip

# Over batches of images: `{w}` is a filter, `{dw}` one for each channel, `{v}`, `{u}` a number for each channel, `{r}` a radius.

_F: Final = "torch.nn.functional."
_CONV: Final = (
    "torch.conv2d({x}, {w}, None, 1, {r})", "torch.conv2d({x}, {w}, None, 1, {r})", "torch.conv2d({x}, {w}, None, 2, {r})",
    "torch.conv2d({x}, {w}, {v}, 1, {r})", "torch.conv2d({x}, {w})", "torch.conv2d({x}, {dw}, None, 1, 0, 1, {x}.size(1))",
    "torch.convolution({x}, {w}, None, [1, 1], [{r}, {r}], [1, 1], False, [0, 0], 1)", "torch.relu(torch.conv2d({x}, {w}, None, 1, {r}))",
    "torch.conv1d({x}.flatten(2), {w}[..., 0])", "torch.conv2d({x}.permute(0, 1, 3, 2), {w}, None, 1, {r})",
    "torch.conv2d({x}[:, :, ::2], {w}, None, 1, {r})", "torch.conv_transpose2d({x}, {w}.transpose(0, 1), None, 1, {r})",
    "torch.conv2d({x}, {w}, None, 1, 2, 2)", "torch.conv2d({x}[0], {w}, None, 1, {r})",
    "torch.conv2d({x}, {w}.contiguous(), None, 1, {r}) + {v}[:, None, None]",
)  # fmt: skip
_POOL: Final = tuple(_F + each for each in (
    "max_pool2d({x}, 2)", "max_pool2d({x}, 3, 1, 1)", "max_pool2d({x}, 3, 2, 1)", "max_pool2d({x}, [2, 1], ceil_mode=True)",
    "avg_pool2d({x}, 2)", "interpolate({x}, scale_factor=2.0)", "max_pool2d({x}, 2, 1, 0, 2)", "max_pool1d({x}.flatten(2), 2)",
    "pad({x}, [1, 1, 0, 1])", "pad({x}, [0, -1])", "pixel_shuffle({x}, 2)", "pixel_unshuffle({x}, 2)", "adaptive_max_pool2d({x}, 1)",
))  # fmt: skip
_IMAGE_NORM: Final = (
    _F + "batch_norm({x}, {v}, {u}, eps=1.0)", _F + "batch_norm({x}, {v}, {u}, {v}, {v}, False, 0.1, 1.0)",
    "torch.batch_norm({x}, {v}, {v}, {v}, {u}, False, 0.1, 1.0, True)", "{x} * {v}[:, None, None]", "{x} - {v}.view(1, -1, 1, 1)",
)  # fmt: skip
_POINT: Final = (
    "torch.relu({x})", "{x} + 1", "-{x}", "{x} * 0.5", "torch.clamp({x}, -3, 3)", "{x} + {y}", "{x} - {y}", "torch.maximum({x}, {y})",
    "torch.abs({x})", "torch.where({x} > 0, {x}, {y})", "{x} * torch.clamp({y}, -1, 1)", _F + "leaky_relu({x}, 0.5)",
    "{x} + {x}.amax(1, True)", "{x}.sum(1, keepdim=True)", "{x}.sum([2, 3])", "{x}.amax({d})", "{x}.sum({d})",
    _F + "hardtanh({x}, 0.0, 6.0)", "{x}.double()", "{x}.float()",
)  # fmt: skip
_IMAGE_VIEW: Final = (
    "{x}.flatten(2)", "{x}.flatten(2).transpose(1, 2)", "{x}.permute(0, 2, 3, 1)", "{x}.permute(0, 3, 1, 2)", "{x}.permute({p})",
    "{x}.transpose({d}, {e})", "{x}.reshape({x}.size(0), -1)", "{x}.view({x}.size(0), {x}.size(1), -1)", "{x}.reshape({y}.shape)",
    "{x}.view({y}.shape)", "{x}[:, :{n}]", "{x}[:, 1:]", "{x}[..., ::2]", "{x}[:, :, 1:, :-1]", "{x}.narrow({d}, 0, 1)",
    "{x}.contiguous()", "{x}.contiguous(memory_format=torch.channels_last)", "{x}.clone()",
    "{x}.clone(memory_format=torch.contiguous_format)", "{x}[0:1]", "{x}.select({d}, 0)", "{x}.unsqueeze(0)", "{x}.squeeze(0)",
    "{x}[None, :]", "{x}.unflatten({d}, (-1, 1)).flatten({d}, {d} + 1)", "{x}.expand_as({y})",
    "{x}.reshape(1, -1, {x}.size(-2), {x}.size(-1))", "{x}.movedim(1, -1)", "{x}.flip({d})", "{x}.detach()", "{x}.repeat(1, 2, 1, 1)",
    "{x}.to(memory_format=torch.channels_last)", "{x}.reshape({x}.size(0), -1, {x}.size(-1))", "{x}.roll(1, {d})",
    "{x}.as_strided({x}.shape, {x}.stride(), {x}.storage_offset())", "{x}.unfold(2, 2, 1)[..., 0]",
)  # fmt: skip
_IMAGE_JOIN: Final = (
    "torch.cat([{x}, {y}], 1)", "torch.cat([{x}, {y}], {d})", "torch.cat({x}.chunk(2, 1)[::-1], 1)", "torch.stack([{x}, {y}])[0]",
    "torch.cat([torch.relu({x}), {x}], 1)", "torch.stack({x}.unbind(1), 1)",
)  # fmt: skip
IMAGE_ROUGH: Final = (
    _F + "group_norm({x}, {n})", _F + "layer_norm({x}, [{x}.size(-1)])", "{x}.mean([2, 3], keepdim=True)", "torch.sigmoid({x})",
    _F + "adaptive_avg_pool2d({x}, 1)", _F + "silu({x})", "torch.softmax({x}, 1)", _F + "batch_norm({x}, None, None, training=True)",
    _F + "interpolate({x}, scale_factor=2.0, mode='bilinear')", _F + "instance_norm({x})", _F + "gelu({x})", "torch.tanh({x})",
)  # fmt: skip
IMAGE_SPLIT: Final = (
    ("{a}, {b} = {x}.chunk(2, 1)", 2), ("{a}, {b} = {x}.chunk(2, {d})", 2), ("{a}, {b} = {x}.split([1, {x}.size(1) - 1], 1)", 2),
)  # fmt: skip
IMAGE_WRITE: Final = (
    "{x}.relu_()", "{x}.add_({y})", "{x}.mul_(0.5)", "{x}.sub_(1)", "{x}.clamp_(-2, 2)", "{x}.copy_({y})", "{x}[:, 0] = 1.0",
    "{x}[:, :{n}].relu_()", "{x}[..., 0] += 1", "{x}.view({x}.size(0), -1)[:, 0] = 2.0", "{x}.flatten(2).add_(1)",
    "{x}.permute({p}).neg_()", "{x}[:, :, 1:].copy_({y}[:, :, 1:])", "{x}[:, ::2] = {y}[:, ::2]", "{x}.transpose({d}, {e}).add_(1)",
    "{x}.reshape(-1).add_(1)", "{x}.contiguous().sub_(1)", "{x}.chunk(2, 1)[1].mul_(2)", _F + "relu({x}, inplace=True)", "{x}.zero_()",
    "{x}[0].fill_(1)", "{x}.select({d}, 0).abs_()", "{x} += {y}", "{v}.add_(1)", "{w}[0] = 1.0", "{x}.squeeze_(0)",
    "{x}.transpose_({d}, {e})", "{x}.unsqueeze_(0)", "{x}.contiguous(memory_format=torch.channels_last).add_(1)",
    "{x}.masked_fill_({x} > 1, 0.5)",
)  # fmt: skip

IMAGE_KINDS: Final[dict[str, tuple[float, tuple[str, ...]]]] = {
    "conv": (8, _CONV), "pool": (1, _POOL), "norm": (1.5, _IMAGE_NORM), "point": (4, _POINT), "view": (3, _IMAGE_VIEW),
    "join": (1, _IMAGE_JOIN),
}  # fmt: skip

# Reductions with every flag: `{D}` dimensions, `[]` or None, `{A}` for those that take no None, `{f}` a float type, `{c}` a correction,
# `{o}` the order of a norm.

REDUCTIONS: Final = (
    "x.sum({D}, keepdim={k})", "x.sum({D}, keepdim={k}, dtype={t})", "x.sum(dtype={t})", "x.mean({D}, keepdim={k})",
    "x.mean({D}, keepdim={k}, dtype={f})", "torch.var(x, {D}, correction={c}, keepdim={k})", "torch.var(x, unbiased={k})",
    "torch.std(x, {D}, correction={c}, keepdim={k})", "torch.std(x, {D}, unbiased=True, keepdim={k})",
    "torch.var_mean(x, {D}, correction={c}, keepdim={k})[0]", "torch.std_mean(x, {D}, correction={c}, keepdim={k})[1]",
    "x.prod({d}, keepdim={k})", "x.prod({d}, keepdim={k}, dtype={t})", "x.prod(dtype={t})", "x.amax({A}, keepdim={k})",
    "x.amin({A}, keepdim={k})", "x.max({d}, keepdim={k})[0]", "x.min({d}, keepdim={k})[1]", "x.argmax({d}, keepdim={k})",
    "x.argmax(None, keepdim={k})", "x.argmin({d}, keepdim={k})", "x.any({d}, keepdim={k})", "x.all({d}, keepdim={k})",
    "torch.any(x, {D}, keepdim={k})", "torch.all(x, {D}, keepdim={k})", "torch.logsumexp(x, {D}, keepdim={k})",
    "torch.linalg.vector_norm(x, {o}, {D}, {k})", "torch.linalg.vector_norm(x, {o}, {D}, {k}, dtype={f})",
    "torch.norm(x, {o}, {D}, keepdim={k})", "x.norm({o}, {d}, keepdim={k})", "x.norm()", "torch.count_nonzero(x, {D})",
    "torch.nansum(x, {D}, keepdim={k})", "torch.nanmean(x, {D}, keepdim={k})", "torch.aminmax(x, dim={d}, keepdim={k})[0]",
    "torch.softmax(x, {d}, dtype={f})", "torch.log_softmax(x, {d})", "torch.cumsum(x, {d}, dtype={t})", "x.median()",
)  # fmt: skip
