"""A convolutional denoising autoencoder with strided and transposed convolutions, and a learning rate that waits."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--noise", type=float, default=0.3)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(8)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.ELU(),
            nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ELU(),
            nn.Flatten(), nn.Linear(8 * 3 * 3, 10),
        )
        self.decoder = nn.Sequential(
            nn.Linear(10, 8 * 3 * 3), nn.ELU(), nn.Unflatten(1, (8, 3, 3)),
            nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1), nn.ELU(),
            nn.ConvTranspose2d(6, 1, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


def blobs(n, size=12):
    grid = torch.arange(size, dtype=torch.float)
    y, x = torch.meshgrid(grid, grid, indexing="ij")
    cy, cx = (torch.rand(2, n, 1, 1) * size).unbind()
    return torch.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 6.0).unsqueeze(1)


model = Autoencoder()
criterion = nn.MSELoss(reduction="mean")
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, threshold=0.05)
images = blobs(60)


def step(clean):
    noisy = (clean + args.noise * torch.randn_like(clean)).clamp(0.0, 1.0)
    loss = criterion(model(noisy), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for epoch in range(5):
    total = 0.0
    for clean in images[torch.randperm(60)].split(15):
        loss = step(clean)
        total += loss.item()
        print(f"epoch {epoch} loss {loss.item():.7f}")
    scheduler.step(total)
    print("lr", optimizer.param_groups[0]["lr"], "bad epochs", scheduler.num_bad_epochs)
model.eval()
with torch.no_grad():
    psnr = 10 * torch.log10(1 / nn.functional.mse_loss(model(images), images))
print(f"PSNR {psnr:.4f} dB")
