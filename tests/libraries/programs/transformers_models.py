import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ViTConfig,
    ViTForImageClassification,
)

torch.manual_seed(0)
m = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2))
x = torch.randint(0, 64, (2, 16))
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for _ in range(3):
    opt.zero_grad()
    loss = m(x, labels=x).loss
    loss.backward()
    opt.step()
    print(loss.item())
m.eval()
print(m.generate(x[:1, :4], max_new_tokens=6, do_sample=False, pad_token_id=0))
torch.manual_seed(0)
b = BertForSequenceClassification(
    BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
)
y = torch.tensor([0, 1])
opt = torch.optim.AdamW(b.parameters(), lr=1e-3)
for _ in range(3):
    opt.zero_grad()
    loss = b(x, attention_mask=torch.ones_like(x), labels=y).loss
    loss.backward()
    opt.step()
    print(loss.item())
torch.manual_seed(0)
l = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
)
print(l(x, labels=x).loss.item())
