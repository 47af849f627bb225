import torch
from entmax import Entmax15Loss, entmax15, entmax_bisect, sparsemax
from pytorch_msssim import ssim
from rotary_embedding_torch import RotaryEmbedding

torch.manual_seed(0)
r = RotaryEmbedding(dim=8)
q = torch.randn(1, 2, 5, 16)
print(r.rotate_queries_or_keys(q).sum(-1))
x = torch.randn(3, 6, requires_grad=True)
for f in (sparsemax, entmax15, lambda x: entmax_bisect(x, 1.3)):
    y = f(x)
    (y * torch.arange(6.0)).sum().backward()
    print(y, x.grad)
    x.grad = None
print(Entmax15Loss()(x, torch.tensor([1, 2, 3])))
a, b = torch.rand(1, 3, 48, 48), torch.rand(1, 3, 48, 48)
print(
    ssim(a, b, data_range=1.0),
)
from vector_quantize_pytorch import FSQ, VectorQuantize

torch.manual_seed(0)
v = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
z = torch.randn(2, 10, 8)
out = v(z)
print(out[1], out[2])
print(FSQ([4, 4, 3])(torch.randn(1, 5, 3))[1])
import torchinfo
import torchsummary

m = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3))
print(torchinfo.summary(m, (2, 1, 8, 8), verbose=0))
torchsummary.summary(m, (1, 8, 8), device="cpu")
import unfoldNd

u = unfoldNd.UnfoldNd(3, padding=1)(torch.randn(1, 2, 5, 5))
print(u.sum())
from einops.layers.torch import Reduce

print(Reduce("b c h w -> b c", "mean")(torch.arange(24.0).view(1, 2, 3, 4)))
