from pytorch_tabnet.tab_model import TabNetClassifier
from sklearn.datasets import make_classification

X, y = make_classification(300, 8, random_state=0)
X = X.astype("float32")
c = TabNetClassifier(verbose=0, seed=0, n_d=4, n_a=4, n_steps=2)
c.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], max_epochs=3, batch_size=64, virtual_batch_size=32)
print(c.history["loss"])
print(c.predict_proba(X[:2]).tolist())
print(c.feature_importances_.tolist())
