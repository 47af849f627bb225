"""A Fourier neural operator in one dimension: from an initial condition to Burgers' equation's solution at time 1."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--modes", type=int, default=8)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)

n, ntrain, ntest, batch_size = 64, 40, 8, 8


def burgers(u, steps=80, nu=0.02):
    """Pseudo-spectral in space, integrating factors and Euler steps in time."""
    dt = 1.0 / steps
    k = 2 * torch.pi * torch.fft.rfftfreq(u.shape[-1], d=1.0 / u.shape[-1])
    decay = torch.exp(-nu * k**2 * dt)
    keep = (torch.arange(k.shape[0]) < u.shape[-1] // 3).to(u.dtype)
    v = torch.fft.rfft(u)
    for _ in range(steps):
        square = torch.fft.rfft(torch.fft.irfft(v, n=u.shape[-1]) ** 2)
        v = decay * (v - dt * 0.5j * k * square * keep)
    return torch.fft.irfft(v, n=u.shape[-1])


x = torch.linspace(0, 1, n + 1)[:-1]
amplitudes = torch.randn(ntrain + ntest, 4, 2) / torch.arange(1, 5)[:, None]
waves = torch.stack([torch.stack([torch.sin(2 * torch.pi * k * x), torch.cos(2 * torch.pi * k * x)]) for k in range(1, 5)])
u0 = 0.3 * torch.einsum("bkc,kcx->bx", amplitudes, waves)
u1 = burgers(u0)


class SpectralConv1d(nn.Module):
    def __init__(self, in_channels, out_channels, modes1):
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.modes1 = modes1
        self.scale = 1 / (in_channels * out_channels)
        real = torch.rand(in_channels, out_channels, modes1, 2)
        self.weights1 = nn.Parameter(self.scale * torch.view_as_complex(real))

    def compl_mul1d(self, input, weights):
        # (batch, in_channel, x), (in_channel, out_channel, x) -> (batch, out_channel, x)
        return torch.einsum("bix,iox->box", input, weights)

    def forward(self, x):
        batchsize = x.shape[0]
        x_ft = torch.fft.rfft(x)
        out_ft = torch.zeros(batchsize, self.out_channels, x.size(-1) // 2 + 1, device=x.device, dtype=torch.cfloat)
        out_ft[:, :, : self.modes1] = self.compl_mul1d(x_ft[:, :, : self.modes1], self.weights1)
        return torch.fft.irfft(out_ft, n=x.size(-1))


class FNO1d(nn.Module):
    def __init__(self, modes, width):
        super().__init__()
        self.p = nn.Linear(2, width)
        self.convs = nn.ModuleList([SpectralConv1d(width, width, modes) for _ in range(3)])
        self.ws = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(3)])
        self.q = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[1]).reshape(1, -1, 1).repeat(x.shape[0], 1, 1)
        x = self.p(torch.cat((x, grid), dim=-1)).permute(0, 2, 1)
        for i, (conv, w) in enumerate(zip(self.convs, self.ws)):
            x = conv(x) + w(x)
            if i < 2:
                x = F.gelu(x)
        return self.q(x.permute(0, 2, 1))


def lp_loss(pred, true):
    diff = torch.norm(pred.reshape(len(pred), -1) - true.reshape(len(true), -1), 2, 1)
    return torch.mean(diff / torch.norm(true.reshape(len(true), -1), 2, 1))


model = FNO1d(args.modes, args.width)
print("parameters:", sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters()))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def train_step(a, u):
    optimizer.zero_grad()
    out = model(a)
    mse = F.mse_loss(out.view(len(a), -1), u.view(len(a), -1))
    loss = lp_loss(out, u)
    loss.backward()
    optimizer.step()
    return mse.detach(), loss.detach()


if args.compile:
    train_step = torch.compile(train_step)

for epoch in range(args.epochs):
    model.train()
    total_mse = total_loss = 0.0
    for i in range(0, ntrain, batch_size):
        mse, loss = train_step(u0[i : i + batch_size, :, None], u1[i : i + batch_size, :, None])
        total_mse += mse.item()
        total_loss += loss.item()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        test = lp_loss(model(u0[ntrain:, :, None]), u1[ntrain:, :, None]).item()
    print(f"epoch {epoch}: mse {total_mse / (ntrain / batch_size):.5f} l2 {total_loss / 5:.4f} test {test:.4f}")
