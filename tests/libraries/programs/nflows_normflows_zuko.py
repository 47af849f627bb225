import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation

torch.manual_seed(0)
tr = CompositeTransform(
    [t for _ in range(2) for t in (ReversePermutation(2), MaskedAffineAutoregressiveTransform(2, 8))]
)
f = Flow(tr, StandardNormal([2]))
o = torch.optim.Adam(f.parameters())
x = torch.randn(64, 2) * 0.5 + 1
for i in range(4):
    o.zero_grad()
    l = -f.log_prob(x).mean()
    l.backward()
    o.step()
    print(l.item())
print(f.sample(2))
import normflows as nf

torch.manual_seed(0)
fl = []
for i in range(3):
    fl += [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 16, 16, 2], init_zeros=True)), nf.flows.Permute(2, mode="swap")]
m = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), fl)
o = torch.optim.Adam(m.parameters(), lr=1e-2)
for i in range(4):
    o.zero_grad()
    l = m.forward_kld(x)
    l.backward()
    o.step()
    print(l.item())
import zuko

torch.manual_seed(0)
f = zuko.flows.NSF(2, context=1, transforms=2, hidden_features=(16, 16))
o = torch.optim.Adam(f.parameters(), lr=1e-2)
c = torch.randn(64, 1)
for i in range(3):
    o.zero_grad()
    l = -f(c).log_prob(x).mean()
    l.backward()
    o.step()
    print(l.item())
print(f(c[0]).sample((2,)))
