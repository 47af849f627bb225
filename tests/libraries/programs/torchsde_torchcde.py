import torch
import torchsde

torch.manual_seed(0)


class S(torch.nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(s):
        super().__init__()
        s.a = torch.nn.Linear(3, 3)
        s.b = torch.nn.Linear(3, 3)

    def f(s, t, y):
        return s.a(y)

    def g(s, t, y):
        return torch.sigmoid(s.b(y))


s = S()
y0 = torch.full((4, 3), 0.1)
ts = torch.linspace(0, 1, 5)
bm = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3), entropy=7)
ys = torchsde.sdeint(s, y0, ts, bm=bm, dt=0.1, method="euler")
print(ys[-1])
l = ys.sum()
l.backward()
print(s.a.weight.grad)
import torchcde

x = torch.randn(2, 6, 3)
x[..., 0] = torch.linspace(0, 1, 6)
co = torchcde.hermite_cubic_coefficients_with_backward_differences(x)
X = torchcde.CubicSpline(co)
print(X.evaluate(0.3), X.derivative(0.3))


class F(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.l = torch.nn.Linear(4, 12)

    def forward(s, t, z):
        return s.l(z).tanh().view(-1, 4, 3)


f = F()
z = torchcde.cdeint(X=X, func=f, z0=torch.ones(2, 4), t=X.interval, method="rk4", options=dict(step_size=0.2))
print(z[:, -1])
z.sum().backward()
print(f.l.bias.grad)
