"""Small models with random weights on a GPU: op by op, fused, the model itself and torch.compile, called and inside a CUDA graph.

`op by op` and `fused` are replayed as CUDA graphs of their own, as `irs.compile` does by itself; `reduce-overhead` is torch's same.

python tests/benchmarks/gpu_models.py [names…]      # torch with CUDA, CuPy and transformers; two minutes
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import transformers as hf
from torch import nn

import irscope as irs
from tests.benchmarks.models import FirstResult

PLAIN = {"attn_implementation": "eager"}


def models() -> dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]]:
    tokens, image = torch.randint(0, 500, (1, 64)), torch.rand(1, 3, 224, 224)
    gpt2 = {"vocab_size": 512, "n_positions": 128, "n_embd": 256, "n_layer": 4, "n_head": 4, "use_cache": False, **PLAIN}
    llama = {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4}
    vit = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768, **PLAIN}
    resnet = {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"}
    convnext = {"hidden_sizes": [40, 80, 160, 320], "depths": [2, 2, 6, 2]}
    whisper = {"d_model": 256, "encoder_layers": 4, "encoder_attention_heads": 4, "encoder_ffn_dim": 1024, **PLAIN}
    return {
        "GPT-2, 4 × 256": lambda: (hf.GPT2Model(hf.GPT2Config(**gpt2)), tokens),
        "Llama, 4 × 256": lambda: (hf.LlamaModel(hf.LlamaConfig(**llama, use_cache=False, **PLAIN)), tokens),
        "ViT, 12 × 192": lambda: (hf.ViTModel(hf.ViTConfig(**vit), add_pooling_layer=False), image),
        "ResNet-18": lambda: (hf.ResNetModel(hf.ResNetConfig(embedding_size=64, **resnet)), image),
        "ConvNeXt": lambda: (hf.ConvNextModel(hf.ConvNextConfig(**convnext)), image),
        "MobileNetV2": lambda: (hf.MobileNetV2Model(hf.MobileNetV2Config()), image),
        "Whisper's encoder, 4 × 256": lambda: (
            hf.models.whisper.modeling_whisper.WhisperEncoder(hf.WhisperConfig(**whisper)), torch.rand(1, 80, 3000)
        ),
    }  # fmt: skip


def replayed_ms(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> float | str:
    """The milliseconds of a replay of a CUDA graph of one call, the median of 30 times ten; or why there is none."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    try:
        with torch.cuda.stream(stream):
            for _ in range(3):
                function(x)
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                function(x)
    except RuntimeError as error:
        return str(error).split(". ")[0]
    times = []
    for _ in range(30):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 10)
    return sorted(times)[15]


if __name__ == "__main__":
    for name, make in models().items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        torch._dynamo.reset()
        model, x = make()
        model, x = FirstResult(model).eval().cuda(), x.cuda()
        with torch.no_grad():
            fusion, compiled = irs.fuse(irs.load(model, x)), torch.compile(model)
            graphed = torch.compile(model, mode="reduce-overhead")  # its own CUDA graphs
            direct = irs.compile(fusion, device="cuda", capture=False)
            print(name)
            peers = {"fused, not captured": direct, "torch.compile": compiled, "torch.compile, reduce-overhead": graphed}
            found = irs.compare(fusion, x, eager=model, peers=peers, repeats=5)
            print(found.table()[["median ms", "low ms", "high ms", "kernels", "launched", "relative error"]].to_string())
            for label, function in ("fused", direct), ("eager", model), ("torch.compile", compiled):
                print("in a CUDA graph, ms:", label, replayed_ms(function, x), flush=True)
