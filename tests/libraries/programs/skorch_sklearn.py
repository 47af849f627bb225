import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import LRScheduler

X, y = make_classification(200, 10, n_informative=5, random_state=0)
X = X.astype("float32")
y = y.astype("int64")


class M(torch.nn.Module):
    def __init__(s, h=10):
        super().__init__()
        s.a = torch.nn.Linear(10, h)
        s.b = torch.nn.Linear(h, 2)

    def forward(s, x):
        return s.b(s.a(x).relu()).softmax(-1)


torch.manual_seed(0)
n = NeuralNetClassifier(
    M,
    max_epochs=4,
    lr=0.1,
    iterator_train__shuffle=True,
    verbose=0,
    callbacks=[("lr", LRScheduler(policy="StepLR", step_size=2))],
)
n.fit(X, y)
print(n.history[:, "train_loss"])
print(n.predict_proba(X[:3]))
print((n.predict(X) == y).mean())
p = Pipeline([("s", StandardScaler()), ("n", n)])
torch.manual_seed(0)
p.fit(X, y)
print(p.predict_proba(X[:2]))
g = GridSearchCV(n, {"lr": [0.05, 0.1]}, cv=2, scoring="accuracy")
torch.manual_seed(0)
g.fit(X, y)
print(g.best_score_)
