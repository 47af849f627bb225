"""Fast neural style: a transformer network with instance norm and reflection padding, Gram matrices of frozen features."""

import argparse
from collections import namedtuple

import torch
from torch.optim import Adam

parser = argparse.ArgumentParser()
parser.add_argument("--content-weight", type=float, default=1.0)
parser.add_argument("--style-weight", type=float, default=50.0)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(42)
torch.set_default_dtype(torch.float64)


class ConvLayer(torch.nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super(ConvLayer, self).__init__()
        self.reflection_pad = torch.nn.ReflectionPad2d(kernel_size // 2)
        self.conv2d = torch.nn.Conv2d(in_channels, out_channels, kernel_size, stride)

    def forward(self, x):
        return self.conv2d(self.reflection_pad(x))


class ResidualBlock(torch.nn.Module):
    def __init__(self, channels):
        super(ResidualBlock, self).__init__()
        self.conv1 = ConvLayer(channels, channels, kernel_size=3, stride=1)
        self.in1 = torch.nn.InstanceNorm2d(channels, affine=True)
        self.conv2 = ConvLayer(channels, channels, kernel_size=3, stride=1)
        self.in2 = torch.nn.InstanceNorm2d(channels, affine=True)
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        out = self.relu(self.in1(self.conv1(x)))
        return self.in2(self.conv2(out)) + x


class UpsampleConvLayer(torch.nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride, upsample=None):
        super(UpsampleConvLayer, self).__init__()
        self.upsample = upsample
        self.layer = ConvLayer(in_channels, out_channels, kernel_size, stride)

    def forward(self, x):
        if self.upsample:
            x = torch.nn.functional.interpolate(x, mode="nearest", scale_factor=self.upsample)
        return self.layer(x)


class TransformerNet(torch.nn.Module):
    def __init__(self):
        super(TransformerNet, self).__init__()
        self.conv1 = ConvLayer(3, 6, kernel_size=5, stride=1)
        self.in1 = torch.nn.InstanceNorm2d(6, affine=True)
        self.conv2 = ConvLayer(6, 8, kernel_size=3, stride=2)
        self.in2 = torch.nn.InstanceNorm2d(8, affine=True)
        self.res = ResidualBlock(8)
        self.deconv = UpsampleConvLayer(8, 6, kernel_size=3, stride=1, upsample=2)
        self.in4 = torch.nn.InstanceNorm2d(6, affine=True)
        self.out = ConvLayer(6, 3, kernel_size=3, stride=1)
        self.relu = torch.nn.ReLU()

    def forward(self, X):
        y = self.relu(self.in1(self.conv1(X)))
        y = self.relu(self.in2(self.conv2(y)))
        y = self.res(y)
        return self.out(self.relu(self.in4(self.deconv(y))))


class Features(torch.nn.Module):
    def __init__(self, requires_grad=False):
        super().__init__()
        self.slice1 = torch.nn.Sequential()
        self.slice2 = torch.nn.Sequential()
        for x, layer in enumerate([torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(inplace=True)]):
            self.slice1.add_module(str(x), layer)
        for x, layer in enumerate([torch.nn.MaxPool2d(2), torch.nn.Conv2d(4, 6, 3, padding=1), torch.nn.ReLU(inplace=True)]):
            self.slice2.add_module(str(x + 2), layer)
        if not requires_grad:
            for param in self.parameters():
                param.requires_grad = False

    def forward(self, X):
        h_relu1 = self.slice1(X)
        h_relu2 = self.slice2(h_relu1)
        outputs = namedtuple("Outputs", ["relu1", "relu2"])
        return outputs(h_relu1, h_relu2)


def gram_matrix(y):
    (b, ch, h, w) = y.size()
    features = y.view(b, ch, w * h)
    features_t = features.transpose(1, 2)
    return features.bmm(features_t) / (ch * h * w)


def normalize_batch(batch):
    mean = batch.new_tensor([0.485, 0.456, 0.406]).view(-1, 1, 1)
    std = batch.new_tensor([0.229, 0.224, 0.225]).view(-1, 1, 1)
    batch = batch.div_(255.0)
    return (batch - mean) / std


images = torch.rand(8, 3, 16, 16) * 255
style = (torch.rand(1, 3, 16, 16) * 255).repeat(4, 1, 1, 1)
transformer, vgg = TransformerNet(), Features(requires_grad=False)
optimizer = Adam(transformer.parameters(), 1e-3)
mse_loss = torch.nn.MSELoss()
gram_style = [gram_matrix(y) for y in vgg(normalize_batch(style))]


def train(x):
    optimizer.zero_grad()
    y = transformer(x)
    y = normalize_batch(y)
    x = normalize_batch(x.clone())
    features_y, features_x = vgg(y), vgg(x)
    content_loss = args.content_weight * mse_loss(features_y.relu2, features_x.relu2)
    style_loss = 0.0
    for ft_y, gm_s in zip(features_y, gram_style):
        gm_y = gram_matrix(ft_y)
        style_loss += mse_loss(gm_y, gm_s[: x.size(0), :, :])
    style_loss *= args.style_weight
    total_loss = content_loss + style_loss
    total_loss.backward()
    optimizer.step()
    return content_loss, style_loss


if args.compile:
    train = torch.compile(train)

for epoch in range(3):
    for batch_id in range(2):
        content, styled = train(images[batch_id * 4 : batch_id * 4 + 4])
        print(f"Epoch {epoch + 1}:\t[{batch_id}]\tcontent: {content.item():.5f}\tstyle: {styled.item():.5f}")
transformer.eval()
with torch.no_grad():
    output = transformer(images[:1]).clamp(0, 255)
print(f"out {output.mean().item():.5f} {tuple(output.shape)}")
