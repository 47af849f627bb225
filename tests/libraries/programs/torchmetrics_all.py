import torch
import torchmetrics as tm

torch.manual_seed(0)
p = torch.rand(50, 4).softmax(-1)
t = torch.randint(0, 4, (50,))
for m in [
    tm.Accuracy(task="multiclass", num_classes=4),
    tm.F1Score(task="multiclass", num_classes=4, average="macro"),
    tm.AUROC(task="multiclass", num_classes=4),
    tm.ConfusionMatrix(task="multiclass", num_classes=4),
    tm.CalibrationError(task="multiclass", num_classes=4),
    tm.AveragePrecision(task="multiclass", num_classes=4),
    tm.CohenKappa(task="multiclass", num_classes=4),
    tm.MatthewsCorrCoef(task="multiclass", num_classes=4),
]:
    print(type(m).__name__, m(p, t))
    m.update(p, t)
    print(m.compute())
a, b = torch.randn(30), torch.randn(30)
for m in [
    tm.MeanSquaredError(),
    tm.R2Score(),
    tm.PearsonCorrCoef(),
    tm.SpearmanCorrCoef(),
    tm.MeanAbsoluteError(),
    tm.ExplainedVariance(),
    tm.KendallRankCorrCoef(),
    tm.CosineSimilarity(),
]:
    print(
        type(m).__name__,
        m(
            a if not isinstance(m, tm.CosineSimilarity) else a[None],
            b if not isinstance(m, tm.CosineSimilarity) else b[None],
        ),
    )
im1, im2 = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
print(tm.image.StructuralSimilarityIndexMeasure()(im1, im2), tm.image.PeakSignalNoiseRatio(1.0)(im1, im2))
print(tm.MeanMetric()(a), tm.MetricCollection([tm.MeanSquaredError(), tm.MeanAbsoluteError()])(a, b))
