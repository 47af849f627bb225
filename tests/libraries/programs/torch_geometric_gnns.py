import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool
from torch_geometric.utils import add_self_loops, degree, to_undirected

torch.manual_seed(0)
edge = to_undirected(torch.randint(0, 20, (2, 40)))
data = Data(x=torch.randn(20, 8), edge_index=edge, y=torch.randint(0, 3, (20,)))
print(data)


class Net(torch.nn.Module):
    def __init__(self, conv, **k):
        super().__init__()
        self.a, self.b = conv(8, 16, **k), conv(16, 3, **k)

    def forward(self, d):
        return self.b(F.dropout(self.a(d.x, d.edge_index).relu(), training=self.training), d.edge_index).log_softmax(-1)


for conv in (GCNConv, SAGEConv, GATConv):
    torch.manual_seed(1)
    net = Net(conv)
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(4):
        opt.zero_grad()
        loss = F.nll_loss(net(data), data.y)
        loss.backward()
        opt.step()
        print(conv.__name__, loss.item())
torch.manual_seed(2)
graphs = [
    Data(x=torch.randn(n, 4), edge_index=torch.randint(0, n, (2, 2 * n)), y=torch.tensor([n % 2])) for n in range(3, 15)
]
gin = GINConv(torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16)))
head = torch.nn.Linear(16, 2)
opt = torch.optim.SGD([*gin.parameters(), *head.parameters()], lr=0.1)
for batch in DataLoader(graphs, batch_size=4, shuffle=True):
    opt.zero_grad()
    loss = F.cross_entropy(head(global_mean_pool(gin(batch.x, batch.edge_index), batch.batch)), batch.y)
    loss.backward()
    opt.step()
    print(batch.num_graphs, loss.item())
print(degree(edge[0], 20))
