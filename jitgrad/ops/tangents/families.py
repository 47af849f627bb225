"""Operations that several tables treat alike.

Owns: the names.
Must not know: what the tables say of them.
"""

from __future__ import annotations

__all__ = ["POINTWISE"]

POINTWISE = """
special_entr special_erfcx special_i0e special_i1e special_log_ndtr special_ndtri special_xlog1py special_zeta igamma
igammac angle exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh sigmoid erf rsqrt
reciprocal abs lgamma digamma polygamma erfinv asinh acosh atanh sinc rad2deg deg2rad logit sgn frac nan_to_num erfc i0
special_i1 copysign hypot fmax fmin heaviside nextafter ldexp logaddexp2 xlogy hardshrink hardshrink_backward
softshrink threshold threshold_at_backward _prelu_kernel floor ceil trunc round round_decimals sign neg relu
threshold_backward leaky_relu_backward hardtanh_backward hardtanh gelu silu softplus log_sigmoid elu celu mish
hardsigmoid hardsigmoid_backward hardswish leaky_relu add sub rsub mul div add_scaled sub_scaled floor_divide div_floor
div_trunc remainder fmod maximum minimum clamp clamp_tensor clamp_min clamp_max clamp_low clamp_high where lerp addcmul
addcdiv atan2 logaddexp pow_scalar pow zero eq_as_self ne_as_self lt_as_self le_as_self gt_as_self ge_as_self
"""
"""With derivatives; each element of the result depends on the operands' elements at its place."""
