"""A vision transformer with a class token, trained with warm-up and cosine decay."""

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(3)


def pair(t):
    return t if isinstance(t, tuple) else (t, t)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, hidden_dim), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(hidden_dim, dim), nn.Dropout(dropout),
        )

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=8):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.attend = nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = map(lambda t: t.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3), qkv)
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        out = torch.matmul(self.attend(dots), v)
        return self.to_out(out.permute(0, 2, 1, 3).flatten(2))


class ViT(nn.Module):
    def __init__(self, *, image_size, patch_size, num_classes, dim, depth, mlp_dim, channels=1):
        super().__init__()
        height, width = pair(image_size)
        self.p = patch_size
        num_patches = (height // self.p) * (width // self.p)
        self.to_patch_embedding = nn.Conv2d(channels, dim, kernel_size=self.p, stride=self.p)
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([Attention(dim), FeedForward(dim, mlp_dim, 0.1)]))
        self.norm = nn.LayerNorm(dim)
        self.mlp_head = nn.Linear(dim, num_classes)

    def forward(self, img):
        x = self.to_patch_embedding(img).flatten(2).transpose(1, 2)
        cls_tokens = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls_tokens, x), dim=1)
        x += self.pos_embedding
        x = self.dropout(x)
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.mlp_head(self.norm(x)[:, 0])


model = ViT(image_size=12, patch_size=4, num_classes=4, dim=16, depth=2, mlp_dim=32)
images = torch.randn(64, 1, 12, 12)
quadrants = torch.stack([images[..., :6, :6], images[..., :6, 6:], images[..., 6:, :6], images[..., 6:, 6:]])
labels = quadrants.mean(dim=(2, 3, 4)).argmax(dim=0)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
warmup = LinearLR(optimizer, start_factor=0.1, total_iters=5)
cosine = CosineAnnealingLR(optimizer, T_max=args.steps - 5)
scheduler = SequentialLR(optimizer, schedulers=[warmup, cosine], milestones=[5])
criterion = nn.CrossEntropyLoss()


@torch.compile(disable=not args.compile)
def train_step(x, y):
    optimizer.zero_grad()
    logits = model(x)
    loss = criterion(logits, y)
    loss.backward()
    optimizer.step()
    return loss


model.train()
for it in range(args.steps):
    index = torch.randperm(64)[:16]
    loss = train_step(images[index], labels[index])
    scheduler.step()
    print(f"step={it:02d} loss={loss.item():.6f} lr={optimizer.param_groups[0]['lr']:.6f}")
model.eval()
with torch.no_grad():
    top = model(images).topk(2, dim=-1)
    print("top-2 accuracy", (top.indices == labels[:, None]).any(dim=1).float().mean().item())
