import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
m = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=64, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True)
    )
)
x = torch.randint(0, 64, (2, 33))
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
for i in range(4):
    opt.zero_grad()
    l = m(x)
    l.backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5)
    opt.step()
    print(l.item())
print(m.generate(x[:, :4], 8))
