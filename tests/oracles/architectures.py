"""Models of transformers with small configurations and random weights: their names, and how to make one with arguments."""

from dataclasses import dataclass
from typing import Any, Final

import torch

_WORDS: Final[dict[str, Any]] = {"vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_PLAIN: Final[dict[str, Any]] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64,
}  # fmt: skip
_DECODER: Final[dict[str, Any]] = {**_WORDS, **_PLAIN, "num_key_value_heads": 2, "head_dim": 8}
_PICTURE: Final[dict[str, Any]] = {**_PLAIN, "image_size": 32, "patch_size": 8, "num_channels": 3}
_FOLDED: Final[dict[str, Any]] = {
    **_WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """A class of transformers', with its configuration and what it is given."""

    name: str
    model: str
    config: dict[str, Any]
    takes: tuple[str, ...] = ("input_ids",)
    parts: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Configurations within the configuration."""


ARCHITECTURES: Final = (
    Architecture("BERT", "BertModel", {**_WORDS, **_PLAIN}, ("input_ids", "attention_mask")),
    Architecture("RoBERTa", "RobertaModel", {**_WORDS, **_PLAIN}),
    Architecture("DistilBERT", "DistilBertModel", {**_WORDS, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}),
    Architecture("ALBERT", "AlbertModel", {**_WORDS, **_PLAIN, "embedding_size": 16}),
    Architecture("ELECTRA", "ElectraModel", {**_WORDS, **_PLAIN, "embedding_size": 16}),
    Architecture("DeBERTa", "DebertaV2Model", {**_WORDS, **_PLAIN, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    Architecture("GPT-2", "GPT2LMHeadModel", {**_WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    Architecture("GPT-NeoX", "GPTNeoXForCausalLM", {**_WORDS, **_PLAIN}),
    Architecture("OPT", "OPTForCausalLM", {**_WORDS, **_PLAIN, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    Architecture("BLOOM", "BloomForCausalLM", {**_WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    Architecture("Llama", "LlamaForCausalLM", _DECODER),
    Architecture("Mistral", "MistralForCausalLM", {**_DECODER, "sliding_window": 4}),
    Architecture("Gemma", "GemmaForCausalLM", _DECODER),
    Architecture("Phi", "PhiForCausalLM", {**_DECODER, "partial_rotary_factor": 0.5}),
    Architecture("Qwen2", "Qwen2ForCausalLM", _DECODER),
    Architecture("T5", "T5Model", {**_WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
                 "decoder_start_token_id": 0}, ("input_ids", "decoder_input_ids")),
    Architecture("BART", "BartModel", _FOLDED, ("input_ids", "decoder_input_ids")),
    Architecture("Whisper", "WhisperModel", {**_FOLDED, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16},
                 ("input_features", "decoder_input_ids")),
    Architecture("ViT", "ViTModel", _PICTURE, ("pixel_values",)),
    Architecture("DeiT", "DeiTModel", _PICTURE, ("pixel_values",)),
    Architecture("Swin", "SwinModel", {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4],
                 "window_size": 4}, ("pixel_values",)),
    Architecture("ConvNeXt", "ConvNextModel", {"hidden_sizes": [8, 16], "depths": [2, 2], "num_stages": 2}, ("pixel_values",)),
    Architecture("SegFormer", "SegformerModel", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_attention_heads": [1, 2],
                 "num_encoder_blocks": 2, "sr_ratios": [4, 2], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2],
                 "decoder_hidden_size": 16}, ("pixel_values",)),
    Architecture("CLIP", "CLIPModel", {"projection_dim": 16}, ("input_ids", "pixel_values"),
                 (("text_config", {**_WORDS, **_PLAIN}), ("vision_config", _PICTURE))),
    Architecture("Wav2Vec2", "Wav2Vec2Model", {**_WORDS, **_PLAIN, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3],
                 "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}, ("input_values",)),
    Architecture("Mamba", "MambaForCausalLM", {**_WORDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    Architecture("RWKV", "RwkvForCausalLM", {**_WORDS, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32,
                 "intermediate_size": 48, "context_length": 32}),
)  # fmt: skip

_GIVEN: Final[dict[str, Any]] = {
    "input_ids": lambda: torch.randint(3, 99, (2, 10)),
    "decoder_input_ids": lambda: torch.randint(3, 99, (2, 6)),
    "attention_mask": lambda: torch.tensor([[1] * 10, [1] * 7 + [0] * 3]),
    "pixel_values": lambda: torch.randn(2, 3, 32, 32),
    "input_features": lambda: torch.randn(2, 8, 32),
    "input_values": lambda: torch.randn(2, 400),
}


class _Plain(torch.nn.Module):
    """The model with arguments in a row and its tensors as results."""

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: torch.Tensor) -> Any:
        caches = any(name == "decoder_input_ids" or name == "input_ids" for name in self.names)
        options = {"use_cache": False} if caches and hasattr(self.model.config, "use_cache") else {}
        found = self.model(**dict(zip(self.names, given, strict=True)), return_dict=False, **options)
        return tuple(x for x in found if isinstance(x, torch.Tensor))


def make(architecture: Architecture) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model in eval mode, and arguments for it; the same each time."""
    import transformers

    torch.manual_seed(0)
    kind = getattr(transformers, architecture.model)
    inner = {name: _part(kind.config_class, name, options) for name, options in architecture.parts}
    config = kind.config_class(**architecture.config, **inner)
    model = kind(config).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return _Plain(model, architecture.takes), tuple(_GIVEN[name]() for name in architecture.takes)


def _part(config: Any, name: str, options: dict[str, Any]) -> Any:
    return config.sub_configs[name](**options).to_dict()
