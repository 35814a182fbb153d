"""YOLOv3 in plain torch: Darknet-53, three heads joined by upsampling, and a decoder that overwrites slices of its own buffer."""

import torch
from torch import nn
from torch.nn import functional

ANCHORS = (((116, 90), (156, 198), (373, 326)), ((30, 61), (62, 45), (59, 119)), ((10, 13), (16, 30), (33, 23)))


class ConvUnit(nn.Module):
    """Convolution, batch norm, leaky relu: the only brick."""

    def __init__(self, inside: int, outside: int, size: int, stride: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(outside)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.leaky_relu(self.norm(self.conv(x)), 0.1)


def double(x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2.0)


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.squeeze, self.expand = ConvUnit(width, width // 2, 1), ConvUnit(width // 2, width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.expand(self.squeeze(x))


def stage(inside: int, outside: int, blocks: int) -> nn.Sequential:
    return nn.Sequential(ConvUnit(inside, outside, 3, stride=2), *(Residual(outside) for _ in range(blocks)))


class Neck(nn.Sequential):
    """Five convolutions that alternate between narrow and wide; what the next head upsamples."""

    def __init__(self, inside: int, width: int):
        wide = 2 * width
        sizes = ((inside, width, 1), (width, wide, 3), (wide, width, 1), (width, wide, 3), (wide, width, 1))
        super().__init__(*(ConvUnit(*size) for size in sizes))


class Detect(nn.Module):
    """One head: raw predictions of three anchors a cell, decoded to corners in pixels by writing slices in place."""

    def __init__(self, width: int, anchors: tuple[tuple[int, int], ...], classes: int):
        super().__init__()
        self.last = nn.Sequential(ConvUnit(width, 2 * width, 3), nn.Conv2d(2 * width, 3 * (5 + classes), 1))
        self.register_buffer("anchors", torch.tensor(anchors, dtype=torch.float32).view(1, 3, 1, 1, 2))
        self.fields = 5 + classes

    def forward(self, x: torch.Tensor, image: int) -> torch.Tensor:
        raw = self.last(x)
        batch, _, rows, columns = raw.shape
        p = raw.view(batch, 3, self.fields, rows, columns).permute(0, 1, 3, 4, 2).contiguous()
        column = torch.arange(columns, device=x.device, dtype=x.dtype).view(1, 1, 1, columns)
        row = torch.arange(rows, device=x.device, dtype=x.dtype).view(1, 1, rows, 1)
        step = image // rows
        p[..., 0:2] = torch.sigmoid(p[..., 0:2])
        p[..., 0] = (p[..., 0] + column) * step
        p[..., 1] = (p[..., 1] + row) * step
        p[..., 2:4] = torch.exp(p[..., 2:4]) * self.anchors
        p[..., 4:] = torch.sigmoid(p[..., 4:])
        p[..., 5:] *= p[..., 4:5]
        p[..., 0:2] -= p[..., 2:4] / 2
        p[..., 2:4] += p[..., 0:2]
        return p.view(batch, -1, self.fields)


class YOLOv3(nn.Module):
    """`width` is the number of channels of the first convolution: 32 is the published network, 4 a quick one."""

    def __init__(self, width: int = 32, classes: int = 80):
        super().__init__()
        w = width
        self.stem = nn.Sequential(ConvUnit(3, w, 3), stage(w, 2 * w, 1), stage(2 * w, 4 * w, 2), stage(4 * w, 8 * w, 8))
        self.middle, self.deep = stage(8 * w, 16 * w, 8), stage(16 * w, 32 * w, 4)
        self.neck1, self.neck2, self.neck3 = Neck(32 * w, 16 * w), Neck(24 * w, 8 * w), Neck(12 * w, 4 * w)
        self.up1, self.up2 = ConvUnit(16 * w, 8 * w, 1), ConvUnit(8 * w, 4 * w, 1)
        self.head1 = Detect(16 * w, ANCHORS[0], classes)
        self.head2 = Detect(8 * w, ANCHORS[1], classes)
        self.head3 = Detect(4 * w, ANCHORS[2], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = x.shape[2]
        fine = self.stem(x)
        middle = self.middle(fine)
        a = self.neck1(self.deep(middle))
        b = self.neck2(torch.cat([double(self.up1(a)), middle], 1))
        c = self.neck3(torch.cat([double(self.up2(b)), fine], 1))
        return torch.cat([self.head1(a, image), self.head2(b, image), self.head3(c, image)], 1)


def yolov3(seed: int = 0, width: int = 32, classes: int = 80) -> YOLOv3:
    """The network in eval mode, with random weights that keep the size of the activations from layer to layer."""
    torch.manual_seed(seed)
    model = YOLOv3(width, classes).eval()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, a=0.1)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.6, 0.9)
            nn.init.uniform_(module.running_var, 0.9, 1.1)
            nn.init.normal_(module.running_mean, std=0.1)
    for residual in (m for m in model.modules() if isinstance(m, Residual)):
        nn.init.constant_(residual.expand.norm.weight, 0.2)
    return model
