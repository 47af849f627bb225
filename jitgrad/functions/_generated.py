"""The public functions, as users call them. Made by ``tools/signatures.py``: do not edit.

Owns: looking at the arguments as they usually are; everything else goes to ``_parse.slow``. Note [Argument parsing].
"""

from jitgrad.door import door as _door
from jitgrad.dtypes import DType as _DType
from jitgrad.functions import tables as _bare
from jitgrad.functions._parse import OTHER_SUMS as _other_sums
from jitgrad.functions._parse import LISTS as _lists
from jitgrad.functions._parse import MISSING as _M
from jitgrad.functions._parse import NUMBERS as _numbers
from jitgrad.functions._parse import OPERANDS as _operands
from jitgrad.functions._parse import ROWS as _rows
from jitgrad.functions._parse import SIZES as _sizes
from jitgrad.functions._parse import TENSORS as _tensors
from jitgrad.functions._parse import as_row as _as_row
from jitgrad.functions._parse import given as _given
from jitgrad.functions._parse import plain_options as _plain_options
from jitgrad.functions._parse import slow as _slow
from jitgrad.functions.known_makings import keep as _keep
from jitgrad.ops.table import OPS as _ops
from jitgrad.layouts import Size as _Size
from jitgrad.runtime.eager.makings import MAKINGS as _makings
from jitgrad.runtime.eager.makings import making_table as _making_table
from jitgrad.state import override_classes as _overrides
from jitgrad.tensor_base import TensorBase as _TensorBase
from jitgrad.tracer.hits.hits import MISSED as _MISSED

_no_options = {}
_py_bool, _py_int, _py_isinstance, _py_len, _py_map = bool, int, isinstance, len, map
_py_list, _py_set, _py_str, _py_sum, _py_tuple, _py_type = list, set, str, sum, tuple, type

_op__log_softmax = _ops['_log_softmax']; _op__softmax = _ops['_softmax']; _op_abs = _ops['abs']
_op_acos = _ops['acos']; _op_acosh = _ops['acosh']; _op_add = _ops['add']; _op_add_scaled = _ops['add_scaled']
_op_addcdiv = _ops['addcdiv']; _op_addcmul = _ops['addcmul']; _op_argmax = _ops['argmax']; _op_argmin = _ops['argmin']
_op_asin = _ops['asin']; _op_asinh = _ops['asinh']; _op_atan = _ops['atan']; _op_atan2 = _ops['atan2']
_op_atanh = _ops['atanh']; _op_bitwise_and = _ops['bitwise_and']; _op_bitwise_not = _ops['bitwise_not']
_op_bitwise_or = _ops['bitwise_or']; _op_bitwise_xor = _ops['bitwise_xor']; _op_cat = _ops['cat']
_op_ceil = _ops['ceil']; _op_clamp_max = _ops['clamp_max']; _op_clamp_min = _ops['clamp_min']; _op_cos = _ops['cos']
_op_cosh = _ops['cosh']; _op_deg2rad = _ops['deg2rad']; _op_detach = _ops['detach']; _op_diagonal = _ops['diagonal']
_op_diagonal_scatter = _ops['diagonal_scatter']; _op_digamma = _ops['digamma']; _op_dot = _ops['dot']
_op_eq = _ops['eq']; _op_eq_as_self = _ops['eq_as_self']; _op_erf = _ops['erf']; _op_erfc = _ops['erfc']
_op_erfinv = _ops['erfinv']; _op_exp = _ops['exp']; _op_exp2 = _ops['exp2']; _op_expand = _ops['expand']
_op_expm1 = _ops['expm1']; _op_floor = _ops['floor']; _op_floor_divide = _ops['floor_divide']; _op_fmod = _ops['fmod']
_op_frac = _ops['frac']; _op_gather = _ops['gather']; _op_ge = _ops['ge']; _op_ge_as_self = _ops['ge_as_self']
_op_gelu = _ops['gelu']; _op_glu = _ops['glu']; _op_gt = _ops['gt']; _op_gt_as_self = _ops['gt_as_self']
_op_hardshrink = _ops['hardshrink']; _op_i0 = _ops['i0']; _op_index_add = _ops['index_add']
_op_index_fill = _ops['index_fill']; _op_index_select = _ops['index_select']; _op_isclose = _ops['isclose']
_op_isfinite = _ops['isfinite']; _op_isinf = _ops['isinf']; _op_isnan = _ops['isnan']; _op_isneginf = _ops['isneginf']
_op_isposinf = _ops['isposinf']; _op_isreal = _ops['isreal']; _op_le = _ops['le']; _op_le_as_self = _ops['le_as_self']
_op_lerp = _ops['lerp']; _op_lgamma = _ops['lgamma']; _op_log = _ops['log']; _op_log10 = _ops['log10']
_op_log1p = _ops['log1p']; _op_log2 = _ops['log2']; _op_log_sigmoid = _ops['log_sigmoid']
_op_logaddexp = _ops['logaddexp']; _op_logical_and = _ops['logical_and']; _op_logical_not = _ops['logical_not']
_op_logical_or = _ops['logical_or']; _op_logical_xor = _ops['logical_xor']; _op_logit = _ops['logit']
_op_lt = _ops['lt']; _op_lt_as_self = _ops['lt_as_self']; _op_masked_fill = _ops['masked_fill']
_op_masked_scatter = _ops['masked_scatter']; _op_maximum = _ops['maximum']; _op_minimum = _ops['minimum']
_op_mul = _ops['mul']; _op_mv = _ops['mv']; _op_ne = _ops['ne']; _op_ne_as_self = _ops['ne_as_self']
_op_neg = _ops['neg']; _op_polygamma = _ops['polygamma']; _op_pow_scalar = _ops['pow_scalar']
_op_rad2deg = _ops['rad2deg']; _op_reciprocal = _ops['reciprocal']; _op_relu = _ops['relu']
_op_remainder = _ops['remainder']; _op_rsqrt = _ops['rsqrt']; _op_scatter_add = _ops['scatter_add']
_op_select = _ops['select']; _op_select_scatter = _ops['select_scatter']; _op_sgn = _ops['sgn']
_op_sigmoid = _ops['sigmoid']; _op_sign = _ops['sign']; _op_signbit = _ops['signbit']; _op_sin = _ops['sin']
_op_sinc = _ops['sinc']; _op_sinh = _ops['sinh']; _op_softshrink = _ops['softshrink']; _op_sqrt = _ops['sqrt']
_op_stack = _ops['stack']; _op_sub = _ops['sub']; _op_sub_scaled = _ops['sub_scaled']; _op_t = _ops['t']
_op_take = _ops['take']; _op_tan = _ops['tan']; _op_tanh = _ops['tanh']; _op_transpose = _ops['transpose']
_op_tril = _ops['tril']; _op_triu = _ops['triu']; _op_trunc = _ops['trunc']; _op_unfold = _ops['unfold']
_op_unsafe_split = _ops['unsafe_split']; _op_unsqueeze = _ops['unsqueeze']; _op_view = _ops['view']
_op_where = _ops['where']

_celu = _bare.PUBLIC['celu']; _elu = _bare.PUBLIC['elu']; _hardsigmoid = _bare.PUBLIC['hardsigmoid']
_hardswish = _bare.PUBLIC['hardswish']; _hardtanh = _bare.PUBLIC['hardtanh']; _leaky_relu = _bare.PUBLIC['leaky_relu']
_mish = _bare.PUBLIC['mish']; _prelu = _bare.PUBLIC['prelu']; _relu6 = _bare.PUBLIC['relu6']
_selu = _bare.PUBLIC['selu']; _silu = _bare.PUBLIC['silu']; _softplus = _bare.PUBLIC['softplus']
_softsign = _bare.PUBLIC['softsign']; _tanhshrink = _bare.PUBLIC['tanhshrink']; _threshold = _bare.PUBLIC['threshold']
_arange = _bare.PUBLIC['arange']; _empty = _bare.PUBLIC['empty']; _zeros_like = _bare.PUBLIC['zeros_like']
_empty_strided = _bare.PUBLIC['empty_strided']; _eye = _bare.PUBLIC['eye']; _full = _bare.PUBLIC['full']
_full_like = _bare.PUBLIC['full_like']; _linspace = _bare.PUBLIC['linspace']; _ones = _bare.PUBLIC['ones']
_ones_like = _bare.PUBLIC['ones_like']; _zeros = _bare.PUBLIC['zeros']; _alpha_dropout = _bare.PUBLIC['alpha_dropout']
_dropout = _bare.PUBLIC['dropout']; _dropout1d = _bare.PUBLIC['dropout1d']; _dropout2d = _bare.PUBLIC['dropout2d']
_dropout3d = _bare.PUBLIC['dropout3d']; _feature_alpha_dropout = _bare.PUBLIC['feature_alpha_dropout']
_gumbel_softmax = _bare.PUBLIC['gumbel_softmax']; _rrelu = _bare.PUBLIC['rrelu']; _einsum = _bare.PUBLIC['einsum']
_argwhere = _bare.PUBLIC['argwhere']; _index_put = _bare.PUBLIC['index_put']
_masked_select = _bare.PUBLIC['masked_select']; _nonzero = _bare.PUBLIC['nonzero']
_take_along_dim = _bare.PUBLIC['take_along_dim']; _atleast_1d = _bare.PUBLIC['atleast_1d']
_atleast_2d = _bare.PUBLIC['atleast_2d']; _atleast_3d = _bare.PUBLIC['atleast_3d']
_block_diag = _bare.PUBLIC['block_diag']; _broadcast_shapes = _bare.PUBLIC['broadcast_shapes']
_broadcast_tensors = _bare.PUBLIC['broadcast_tensors']; _cartesian_prod = _bare.PUBLIC['cartesian_prod']
_column_stack = _bare.PUBLIC['column_stack']; _combinations = _bare.PUBLIC['combinations']
_diag = _bare.PUBLIC['diag']; _diag_embed = _bare.PUBLIC['diag_embed']; _diagflat = _bare.PUBLIC['diagflat']
_dsplit = _bare.PUBLIC['dsplit']; _dstack = _bare.PUBLIC['dstack']; _fliplr = _bare.PUBLIC['fliplr']
_flipud = _bare.PUBLIC['flipud']; _hsplit = _bare.PUBLIC['hsplit']; _hstack = _bare.PUBLIC['hstack']
_kron = _bare.PUBLIC['kron']; _meshgrid = _bare.PUBLIC['meshgrid']; _pad = _bare.PUBLIC['pad']
_rot90 = _bare.PUBLIC['rot90']; _vstack = _bare.PUBLIC['vstack']; _split_with_sizes = _bare.PUBLIC['split_with_sizes']
_sum_to_size = _bare.PUBLIC['sum_to_size']; _vsplit = _bare.PUBLIC['vsplit']; _avg_pool2d = _bare.PUBLIC['avg_pool2d']
_batch_norm = _bare.PUBLIC['batch_norm']; _conv2d = _bare.PUBLIC['conv2d']; _embedding = _bare.PUBLIC['embedding']
_layer_norm = _bare.PUBLIC['layer_norm']; _max_pool2d = _bare.PUBLIC['max_pool2d']; _one_hot = _bare.PUBLIC['one_hot']
_rms_norm = _bare.PUBLIC['rms_norm']; _scaled_dot_product_attention = _bare.PUBLIC['scaled_dot_product_attention']
_addbmm = _bare.PUBLIC['addbmm']; _addmm = _bare.PUBLIC['addmm']; _addmv = _bare.PUBLIC['addmv']
_addr = _bare.PUBLIC['addr']; _baddbmm = _bare.PUBLIC['baddbmm']; _bmm = _bare.PUBLIC['bmm']
_chain_matmul = _bare.PUBLIC['chain_matmul']; _cholesky = _bare.PUBLIC['cholesky']
_cholesky_inverse = _bare.PUBLIC['cholesky_inverse']; _cholesky_solve = _bare.PUBLIC['cholesky_solve']
_cross = _bare.PUBLIC['cross']; _det = _bare.PUBLIC['det']; _outer = _bare.PUBLIC['outer']
_inner = _bare.PUBLIC['inner']; _inverse = _bare.PUBLIC['inverse']; _linear = _bare.PUBLIC['linear']
_logdet = _bare.PUBLIC['logdet']; _lu_solve = _bare.PUBLIC['lu_solve']; _lu_unpack = _bare.PUBLIC['lu_unpack']
_matmul = _bare.PUBLIC['matmul']; _matrix_exp = _bare.PUBLIC['matrix_exp']
_matrix_power = _bare.PUBLIC['matrix_power']; _mm = _bare.PUBLIC['mm']; _pinverse = _bare.PUBLIC['pinverse']
_qr = _bare.PUBLIC['qr']; _slogdet = _bare.PUBLIC['slogdet']; _svd = _bare.PUBLIC['svd']
_trace = _bare.PUBLIC['trace']; _triangular_solve = _bare.PUBLIC['triangular_solve']; _vdot = _bare.PUBLIC['vdot']
_binary_cross_entropy = _bare.PUBLIC['binary_cross_entropy']
_binary_cross_entropy_with_logits = _bare.PUBLIC['binary_cross_entropy_with_logits']
_cross_entropy = _bare.PUBLIC['cross_entropy']; _huber_loss = _bare.PUBLIC['huber_loss']
_kl_div = _bare.PUBLIC['kl_div']; _l1_loss = _bare.PUBLIC['l1_loss']; _mse_loss = _bare.PUBLIC['mse_loss']
_nll_loss = _bare.PUBLIC['nll_loss']; _smooth_l1_loss = _bare.PUBLIC['smooth_l1_loss']
_argsort = _bare.PUBLIC['argsort']; _bincount = _bare.PUBLIC['bincount']; _bucketize = _bare.PUBLIC['bucketize']
_histc = _bare.PUBLIC['histc']; _histogram = _bare.PUBLIC['histogram']; _isin = _bare.PUBLIC['isin']
_kthvalue = _bare.PUBLIC['kthvalue']; _median = _bare.PUBLIC['median']; _mode = _bare.PUBLIC['mode']
_msort = _bare.PUBLIC['msort']; _nanmedian = _bare.PUBLIC['nanmedian']; _nanquantile = _bare.PUBLIC['nanquantile']
_quantile = _bare.PUBLIC['quantile']; _searchsorted = _bare.PUBLIC['searchsorted']; _sort = _bare.PUBLIC['sort']
_topk = _bare.PUBLIC['topk']; _unique = _bare.PUBLIC['unique']
_unique_consecutive = _bare.PUBLIC['unique_consecutive']; _bitwise_left_shift = _bare.PUBLIC['bitwise_left_shift']
_bitwise_right_shift = _bare.PUBLIC['bitwise_right_shift']; _clamp = _bare.PUBLIC['clamp']
_copysign = _bare.PUBLIC['copysign']; _div = _bare.PUBLIC['div']; _float_power = _bare.PUBLIC['float_power']
_fmax = _bare.PUBLIC['fmax']; _fmin = _bare.PUBLIC['fmin']; _gcd = _bare.PUBLIC['gcd']
_heaviside = _bare.PUBLIC['heaviside']; _hypot = _bare.PUBLIC['hypot']; _lcm = _bare.PUBLIC['lcm']
_ldexp = _bare.PUBLIC['ldexp']; _logaddexp2 = _bare.PUBLIC['logaddexp2']; _nan_to_num = _bare.PUBLIC['nan_to_num']
_nextafter = _bare.PUBLIC['nextafter']; _positive = _bare.PUBLIC['positive']; _pow = _bare.PUBLIC['pow']
_round = _bare.PUBLIC['round']; _rsub = _bare.PUBLIC['rsub']; _where = _bare.PUBLIC['where']
_xlogy = _bare.PUBLIC['xlogy']; _all = _bare.PUBLIC['all']; _allclose = _bare.PUBLIC['allclose']
_amax = _bare.PUBLIC['amax']; _amin = _bare.PUBLIC['amin']; _aminmax = _bare.PUBLIC['aminmax']
_any = _bare.PUBLIC['any']; _count_nonzero = _bare.PUBLIC['count_nonzero']; _cummax = _bare.PUBLIC['cummax']
_cummin = _bare.PUBLIC['cummin']; _cumprod = _bare.PUBLIC['cumprod']; _cumsum = _bare.PUBLIC['cumsum']
_cumulative_trapezoid = _bare.PUBLIC['cumulative_trapezoid']; _diff = _bare.PUBLIC['diff']
_equal = _bare.PUBLIC['equal']; _is_complex = _bare.PUBLIC['is_complex']
_is_floating_point = _bare.PUBLIC['is_floating_point']; _is_nonzero = _bare.PUBLIC['is_nonzero']
_is_same_size = _bare.PUBLIC['is_same_size']; _is_signed = _bare.PUBLIC['is_signed']
_logcumsumexp = _bare.PUBLIC['logcumsumexp']; _logsumexp = _bare.PUBLIC['logsumexp']; _max = _bare.PUBLIC['max']
_mean = _bare.PUBLIC['mean']; _min = _bare.PUBLIC['min']; _nanmean = _bare.PUBLIC['nanmean']
_nansum = _bare.PUBLIC['nansum']; _norm = _bare.PUBLIC['norm']; _prod = _bare.PUBLIC['prod']
_std = _bare.PUBLIC['std']; _sum = _bare.PUBLIC['sum']; _trapezoid = _bare.PUBLIC['trapezoid']
_var = _bare.PUBLIC['var']; _vector_norm = _bare.PUBLIC['vector_norm']; _bernoulli = _bare.PUBLIC['bernoulli']
_multinomial = _bare.PUBLIC['multinomial']; _normal = _bare.PUBLIC['normal']; _poisson = _bare.PUBLIC['poisson']
_rand = _bare.PUBLIC['rand']; _rand_like = _bare.PUBLIC['rand_like']; _randint = _bare.PUBLIC['randint']
_randint_like = _bare.PUBLIC['randint_like']; _randn = _bare.PUBLIC['randn']; _randn_like = _bare.PUBLIC['randn_like']
_randperm = _bare.PUBLIC['randperm']; _as_strided_scatter = _bare.PUBLIC['as_strided_scatter']
_index_copy = _bare.PUBLIC['index_copy']; _put = _bare.PUBLIC['put']; _scatter = _bare.PUBLIC['scatter']
_scatter_reduce = _bare.PUBLIC['scatter_reduce']; _slice_scatter = _bare.PUBLIC['slice_scatter']
_adjoint = _bare.PUBLIC['adjoint']; _as_strided = _bare.PUBLIC['as_strided']
_broadcast_to = _bare.PUBLIC['broadcast_to']; _chunk = _bare.PUBLIC['chunk']; _expand = _bare.PUBLIC['expand']
_flatten = _bare.PUBLIC['flatten']; _flip = _bare.PUBLIC['flip']; _movedim = _bare.PUBLIC['movedim']
_narrow = _bare.PUBLIC['narrow']; _permute = _bare.PUBLIC['permute']; _ravel = _bare.PUBLIC['ravel']
_repeat = _bare.PUBLIC['repeat']; _repeat_interleave = _bare.PUBLIC['repeat_interleave']
_reshape = _bare.PUBLIC['reshape']; _reshape_as = _bare.PUBLIC['reshape_as']; _roll = _bare.PUBLIC['roll']
_split = _bare.PUBLIC['split']; _squeeze = _bare.PUBLIC['squeeze']; _tensor_split = _bare.PUBLIC['tensor_split']
_tile = _bare.PUBLIC['tile']; _unbind = _bare.PUBLIC['unbind']; _unflatten = _bare.PUBLIC['unflatten']
_unsafe_chunk = _bare.PUBLIC['unsafe_chunk']; _view = _bare.PUBLIC['view']; _clone = _bare.PUBLIC['clone']
_contiguous = _bare.PUBLIC['contiguous']; _split_method = _bare.METHODS['split']
_new_zeros = _bare.METHODS['new_zeros']; _new_ones = _bare.METHODS['new_ones']; _new_full = _bare.METHODS['new_full']
_new_empty_strided = _bare.METHODS['new_empty_strided']; _cpu = _bare.METHODS['cpu']
_get_device = _bare.METHODS['get_device']; _is_contiguous = _bare.METHODS['is_contiguous']
_storage = _bare.METHODS['storage']; _untyped_storage = _bare.METHODS['untyped_storage']
_record_stream = _bare.METHODS['record_stream']; _type_as = _bare.METHODS['type_as']; _vcpu = _bare.METHODS['vcpu']
_detach_ = _bare.METHODS['detach_']; _set_ = _bare.METHODS['set_']; _resize_ = _bare.METHODS['resize_']
_bfloat16 = _bare.METHODS['bfloat16']; _bool = _bare.METHODS['bool']; _byte = _bare.METHODS['byte']
_cdouble = _bare.METHODS['cdouble']; _cfloat = _bare.METHODS['cfloat']; _char = _bare.METHODS['char']
_half = _bare.METHODS['half']; _int = _bare.METHODS['int']; _long = _bare.METHODS['long']
_short = _bare.METHODS['short']; _cuda = _bare.METHODS['cuda']; _new_tensor = _bare.METHODS['new_tensor']
_polygamma_method = _bare.METHODS['polygamma']; _copysign_ = _bare.INPLACE_METHODS['copysign_']
_hypot_ = _bare.INPLACE_METHODS['hypot_']; _heaviside_ = _bare.INPLACE_METHODS['heaviside_']
_nextafter_ = _bare.INPLACE_METHODS['nextafter_']; _ldexp_ = _bare.INPLACE_METHODS['ldexp_']
_xlogy_ = _bare.INPLACE_METHODS['xlogy_']; _bitwise_and_ = _bare.INPLACE_METHODS['bitwise_and_']
_bitwise_or_ = _bare.INPLACE_METHODS['bitwise_or_']; _bitwise_xor_ = _bare.INPLACE_METHODS['bitwise_xor_']
_bitwise_left_shift_ = _bare.INPLACE_METHODS['bitwise_left_shift_']
_bitwise_right_shift_ = _bare.INPLACE_METHODS['bitwise_right_shift_']; _gcd_ = _bare.INPLACE_METHODS['gcd_']
_lcm_ = _bare.INPLACE_METHODS['lcm_']; _cumsum_ = _bare.INPLACE_METHODS['cumsum_']
_cumprod_ = _bare.INPLACE_METHODS['cumprod_']; _add_ = _bare.INPLACE_METHODS['add_']
_sub_ = _bare.INPLACE_METHODS['sub_']; _div_ = _bare.INPLACE_METHODS['div_']; _pow_ = _bare.INPLACE_METHODS['pow_']
_float_power_ = _bare.INPLACE_METHODS['float_power_']; _square_ = _bare.INPLACE_METHODS['square_']
_clamp_ = _bare.INPLACE_METHODS['clamp_']; _clamp_min_ = _bare.INPLACE_METHODS['clamp_min_']
_clamp_max_ = _bare.INPLACE_METHODS['clamp_max_']; _lerp_ = _bare.INPLACE_METHODS['lerp_']
_round_ = _bare.INPLACE_METHODS['round_']; _addcmul_ = _bare.INPLACE_METHODS['addcmul_']
_addcdiv_ = _bare.INPLACE_METHODS['addcdiv_']; _addmm_ = _bare.INPLACE_METHODS['addmm_']
_fill_diagonal_ = _bare.INPLACE_METHODS['fill_diagonal_']; _logit_ = _bare.INPLACE_METHODS['logit_']
_nan_to_num_ = _bare.INPLACE_METHODS['nan_to_num_']; _polygamma_ = _bare.INPLACE_METHODS['polygamma_']
_copy_ = _bare.INPLACE_METHODS['copy_']; _fill_ = _bare.INPLACE_METHODS['fill_']
_zero_ = _bare.INPLACE_METHODS['zero_']; _uniform_ = _bare.INPLACE_METHODS['uniform_']
_normal_ = _bare.INPLACE_METHODS['normal_']; _bernoulli_ = _bare.INPLACE_METHODS['bernoulli_']
_random_ = _bare.INPLACE_METHODS['random_']; _exponential_ = _bare.INPLACE_METHODS['exponential_']
_geometric_ = _bare.INPLACE_METHODS['geometric_']; _cauchy_ = _bare.INPLACE_METHODS['cauchy_']
_log_normal_ = _bare.INPLACE_METHODS['log_normal_']; _masked_fill_ = _bare.INPLACE_METHODS['masked_fill_']
_scatter_add_ = _bare.INPLACE_METHODS['scatter_add_']; _index_add_ = _bare.INPLACE_METHODS['index_add_']
_index_put_ = _bare.INPLACE_METHODS['index_put_']; _tril_ = _bare.INPLACE_METHODS['tril_']
_triu_ = _bare.INPLACE_METHODS['triu_']; _scatter_ = _bare.INPLACE_METHODS['scatter_']
_scatter_reduce_ = _bare.INPLACE_METHODS['scatter_reduce_']; _index_copy_ = _bare.INPLACE_METHODS['index_copy_']
_index_fill_ = _bare.INPLACE_METHODS['index_fill_']; _masked_scatter_ = _bare.INPLACE_METHODS['masked_scatter_']
_put_ = _bare.INPLACE_METHODS['put_']; _transpose_ = _bare.INPLACE_METHODS['transpose_']
_t_ = _bare.INPLACE_METHODS['t_']; _squeeze_ = _bare.INPLACE_METHODS['squeeze_']
_unsqueeze_ = _bare.INPLACE_METHODS['unsqueeze_']; _swapaxes_ = _bare.INPLACE_METHODS['swapaxes_']
_elu_ = _bare.LAYERS['elu_']; _celu_ = _bare.LAYERS['celu_']; _selu_ = _bare.LAYERS['selu_']
_hardtanh_ = _bare.LAYERS['hardtanh_']; _leaky_relu_ = _bare.LAYERS['leaky_relu_']
_threshold_ = _bare.LAYERS['threshold_']; _rrelu_ = _bare.LAYERS['rrelu_']

def celu(input, alpha=1.0, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(alpha) in _numbers:
                return _celu(input, alpha, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(celu, (input,), _given(('alpha', alpha, 1.0), ('inplace', inplace, False)))

def elu(input, alpha=1.0, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(alpha) in _numbers:
                return _elu(input, alpha, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(elu, (input,), _given(('alpha', alpha, 1.0), ('inplace', inplace, False)))

def gelu(input, approximate='none', *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(approximate) is _py_str:
                return _door.apply(_op_gelu, input, approximate)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(gelu, (input,), _given(('approximate', approximate, 'none'), ('out', out, None)))

def glu(input, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _door.apply(_op_glu, input, -1 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(glu, (input,), _given(('dim', dim, _M), ('axis', axis, _M)))

def hardshrink(input, lambd=0.5, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(lambd) in _numbers:
                return _door.apply(_op_hardshrink, input, lambd)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(hardshrink, (input,), _given(('lambd', lambd, 0.5), ('out', out, None)))

def hardsigmoid(input, inplace=False, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _hardsigmoid(input, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(hardsigmoid, (input,), _given(('inplace', inplace, False), ('out', out, None)))

def hardswish(input, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _hardswish(input, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(hardswish, (input,), _given(('inplace', inplace, False)))

def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(min_val) in _numbers and _py_type(max_val) in _numbers:
                return _hardtanh(input, min_val, max_val, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(hardtanh, (input,), _given(('min_val', min_val, -1.0), ('max_val', max_val, 1.0), ('inplace', inplace, False), ('out', out, None)))

def leaky_relu(input, negative_slope=0.01, inplace=False, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(negative_slope) in _numbers:
                return _leaky_relu(input, negative_slope, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(leaky_relu, (input,), _given(('negative_slope', negative_slope, 0.01), ('inplace', inplace, False), ('out', out, None)))

def logsigmoid(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_log_sigmoid, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logsigmoid, (input,), _given(('out', out, None)))

def mish(input, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _mish(input, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(mish, (input,), _given(('inplace', inplace, False)))

def prelu(input, weight):
    if _py_type(input) in _tensors:
        try:
            if _py_type(weight) in _tensors:
                return _prelu(input, weight)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(prelu, (input, weight,), {})

def relu6(input, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _relu6(input, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(relu6, (input,), _given(('inplace', inplace, False)))

def selu(input, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _selu(input, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(selu, (input,), _given(('inplace', inplace, False)))

def silu(input, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _silu(input, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(silu, (input,), _given(('inplace', inplace, False)))

def softmin(input, dim, dtype=None, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and (dtype is None or _py_type(dtype) is _DType) and axis is _M:
                return _door.apply(_op__softmax, -(input if dtype is None else input.to(dtype)), dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(softmin, (input, dim,), _given(('dtype', dtype, None), ('axis', axis, _M)))

def softplus(input, beta=1.0, threshold=20.0, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(beta) in _numbers and _py_type(threshold) in _numbers:
                return _softplus(input, beta, threshold)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(softplus, (input,), _given(('beta', beta, 1.0), ('threshold', threshold, 20.0), ('out', out, None)))

def softshrink(input, lambd=0.5, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(lambd) in _numbers:
                return _door.apply(_op_softshrink, input, lambd)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(softshrink, (input,), _given(('lambd', lambd, 0.5), ('out', out, None)))

def softsign(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _softsign(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(softsign, (input,), {})

def tanhshrink(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _tanhshrink(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tanhshrink, (input,), {})

def threshold(input, threshold, value, inplace=False, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(threshold) in _numbers and _py_type(value) in _numbers:
                return _threshold(input, threshold, value, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(_threshold_itself, (input, threshold, value,), _given(('inplace', inplace, False), ('out', out, None)))

_threshold_itself = threshold

_options_of_arange = 'dtype', 'device', 'requires_grad',
_known_arange = _py_set()

_made_arange = _making_table()

def arange(*args, **options):
    made = _makings.make_again(_made_arange, args, options)
    if made is not _MISSED:
        return made
    given = args
    if not options and (*_py_map(_py_type, args),) in _known_arange:
        return _keep('arange', _made_arange, given, options, _arange(*args))
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_arange:
        return _keep('arange', _made_arange, given, options, _arange(*args, **options))
    if options and _plain_options(options, _options_of_arange) and (*_py_map(_py_type, args),) in _known_arange:
        return _keep('arange', _made_arange, given, options, _arange(*args, **options))
    return _slow(arange, args, options, _known_arange)

_options_of_empty = 'dtype', 'device', 'requires_grad',

_made_empty = _making_table()

def empty(*sizes, **options):
    if _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list:
        sizes = (_py_tuple(sizes[0]),)
    made = _makings.make_again(_made_empty, sizes, options)
    if made is not _MISSED:
        return made
    given = sizes
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options or _plain_options(options, _options_of_empty)) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if is_plain and not options:
        return _keep('empty', _made_empty, given, options, _empty(*sizes))
    if is_plain and _plain_options(options, _options_of_empty):
        return _keep('empty', _made_empty, given, options, _empty(*sizes, **options))
    return _slow(empty, sizes, options)

def zeros_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and (memory_format is None or True) and layout is _M and pin_memory is _M:
                return _zeros_like(input, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(zeros_like, (input,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('memory_format', memory_format, None), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

def empty_strided(size, stride, *, dtype=None, device=None, requires_grad=False, layout=_M, pin_memory=_M):
    if _py_type(size) is _Size:
        size = _py_tuple(size)
    if _py_type(stride) is _Size:
        stride = _py_tuple(stride)
    if _py_type(size) is _py_list:
        size = _as_row(size)
    if _py_type(stride) is _py_list:
        stride = _as_row(stride)
    if _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums and _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
        return _empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)
    return _slow(empty_strided, (size, stride,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

_made_eye = _making_table()

def eye(n, m=_M, *, dtype=None, device=None, requires_grad=False, out=None, layout=_M, pin_memory=_M):
    given = None
    if requires_grad is False and out is None and layout is _M and pin_memory is _M:
        given = n, m, dtype, device,
        made = _makings.make_again(_made_eye, given, _no_options)
        if made is not _MISSED:
            return made
    if out is None and _py_type(n) is _py_int and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and m is _M and layout is _M and pin_memory is _M:
        return _keep('eye', _made_eye, given, _no_options, _eye(n, dtype=dtype, device=device, requires_grad=requires_grad))
    if out is None and _py_type(n) is _py_int and _py_type(m) is _py_int and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
        return _keep('eye', _made_eye, given, _no_options, _eye(n, m, dtype=dtype, device=device, requires_grad=requires_grad))
    return _slow(eye, (n,), _given(('m', m, _M), ('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('out', out, None), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

_made_full = _making_table()

def full(size, fill_value, *, dtype=None, device=None, requires_grad=False, out=None, layout=_M, pin_memory=_M):
    given = None
    if requires_grad is False and out is None and layout is _M and pin_memory is _M:
        given = size, fill_value, dtype, device,
        made = _makings.make_again(_made_full, given, _no_options)
        if made is not _MISSED:
            return made
    if _py_type(size) is _Size:
        size = _py_tuple(size)
    if _py_type(size) is _py_list:
        size = _as_row(size)
    if out is None and _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums and _py_type(fill_value) in _numbers and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
        return _keep('full', _made_full, given, _no_options, _full(size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad))
    return _slow(full, (size, fill_value,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('out', out, None), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(fill_value) in _numbers and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and (memory_format is None or True) and layout is _M and pin_memory is _M:
                return _full_like(input, fill_value, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(full_like, (input, fill_value,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('memory_format', memory_format, None), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

_made_linspace = _making_table()

def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False, out=None, layout=_M, pin_memory=_M):
    given = None
    if requires_grad is False and out is None and layout is _M and pin_memory is _M:
        given = start, end, steps, dtype, device,
        made = _makings.make_again(_made_linspace, given, _no_options)
        if made is not _MISSED:
            return made
    if out is None and _py_type(start) in _operands and _py_type(end) in _operands and _py_type(steps) is _py_int and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
        return _keep('linspace', _made_linspace, given, _no_options, _linspace(start, end, steps, dtype=dtype, device=device, requires_grad=requires_grad))
    return _slow(linspace, (start, end, steps,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('out', out, None), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

_options_of_ones = 'dtype', 'device', 'requires_grad',

_made_ones = _making_table()

def ones(*sizes, **options):
    if _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list:
        sizes = (_py_tuple(sizes[0]),)
    made = _makings.make_again(_made_ones, sizes, options)
    if made is not _MISSED:
        return made
    given = sizes
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options or _plain_options(options, _options_of_ones)) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if is_plain and not options:
        return _keep('ones', _made_ones, given, options, _ones(*sizes))
    if is_plain and _plain_options(options, _options_of_ones):
        return _keep('ones', _made_ones, given, options, _ones(*sizes, **options))
    return _slow(ones, sizes, options)

def ones_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and (memory_format is None or True) and layout is _M and pin_memory is _M:
                return _ones_like(input, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ones_like, (input,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('memory_format', memory_format, None), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

_options_of_zeros = 'dtype', 'device', 'requires_grad',

_made_zeros = _making_table()

def zeros(*sizes, **options):
    if _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list:
        sizes = (_py_tuple(sizes[0]),)
    made = _makings.make_again(_made_zeros, sizes, options)
    if made is not _MISSED:
        return made
    given = sizes
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options or _plain_options(options, _options_of_zeros)) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if is_plain and not options:
        return _keep('zeros', _made_zeros, given, options, _zeros(*sizes))
    if is_plain and _plain_options(options, _options_of_zeros):
        return _keep('zeros', _made_zeros, given, options, _zeros(*sizes, **options))
    return _slow(zeros, sizes, options)

def alpha_dropout(input, p=0.5, training=False, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(p) in _numbers and _py_type(training) is _py_bool:
                return _alpha_dropout(input, p, training, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(alpha_dropout, (input,), _given(('p', p, 0.5), ('training', training, False), ('inplace', inplace, False)))

def dropout(input, p=0.5, training=True, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(p) in _numbers and _py_type(training) is _py_bool:
                return _dropout(input, p, training, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(dropout, (input,), _given(('p', p, 0.5), ('training', training, True), ('inplace', inplace, False)))

def dropout1d(input, p=0.5, training=True, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(p) in _numbers and _py_type(training) is _py_bool:
                return _dropout1d(input, p, training, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(dropout1d, (input,), _given(('p', p, 0.5), ('training', training, True), ('inplace', inplace, False)))

def dropout2d(input, p=0.5, training=True, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(p) in _numbers and _py_type(training) is _py_bool:
                return _dropout2d(input, p, training, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(dropout2d, (input,), _given(('p', p, 0.5), ('training', training, True), ('inplace', inplace, False)))

def dropout3d(input, p=0.5, training=True, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(p) in _numbers and _py_type(training) is _py_bool:
                return _dropout3d(input, p, training, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(dropout3d, (input,), _given(('p', p, 0.5), ('training', training, True), ('inplace', inplace, False)))

def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(p) in _numbers and _py_type(training) is _py_bool:
                return _feature_alpha_dropout(input, p, training, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(feature_alpha_dropout, (input,), _given(('p', p, 0.5), ('training', training, False), ('inplace', inplace, False)))

def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=_M, *, axis=_M):
    if not _overrides or _py_type(logits) in _tensors:
        try:
            if _py_type(tau) in _numbers and _py_type(hard) is _py_bool and _py_type(eps) in _numbers and (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _gumbel_softmax(logits, tau, hard, eps, -1 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(logits, _TensorBase):
                raise
    return _slow(gumbel_softmax, (logits,), _given(('tau', tau, 1), ('hard', hard, False), ('eps', eps, 1e-10), ('dim', dim, _M), ('axis', axis, _M)))

def rrelu(input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(lower) in _numbers and _py_type(upper) in _numbers and _py_type(training) is _py_bool:
                return _rrelu(input, lower, upper, training, inplace)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rrelu, (input,), _given(('lower', lower, 0.125), ('upper', upper, 0.3333333333333333), ('training', training, False), ('inplace', inplace, False)))

def einsum(*args, **options):
    if _overrides:
        return _slow(einsum, args, options)
    return _einsum(*args, **options) if options else _einsum(*args)

def argwhere(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _argwhere(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(argwhere, (input,), {})

def gather(input, dim, index, *, sparse_grad=False, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(sparse_grad) is _py_bool and axis is _M:
                return _door.apply(_op_gather, input, index, dim, True) if sparse_grad else _door.apply(_op_gather, input, index, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(gather, (input, dim, index,), _given(('sparse_grad', sparse_grad, False), ('out', out, None), ('axis', axis, _M)))

def index_add(input, dim, index, source, *, alpha=1, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(source) in _tensors and _py_type(alpha) in _numbers and axis is _M:
                return _door.apply(_op_index_add, input, index, source if alpha == 1 else source * alpha, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_add, (input, dim, index, source,), _given(('alpha', alpha, 1), ('out', out, None), ('axis', axis, _M)))

def index_put(input, indices, values, accumulate=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(indices) in _lists and _tensors.issuperset(_py_map(_py_type, indices)) and _py_type(values) in _tensors and _py_type(accumulate) is _py_bool:
                return _index_put(input, indices, values, accumulate)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_put, (input, indices, values,), _given(('accumulate', accumulate, False)))

def index_select(input, dim, index, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and axis is _M:
                return _door.apply(_op_index_select, input, index, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_select, (input, dim, index,), _given(('out', out, None), ('axis', axis, _M)))

def masked_fill(input, mask, value):
    if _py_type(input) in _tensors:
        try:
            if _py_type(mask) in _tensors and _py_type(value) in _operands:
                return _door.apply(_op_masked_fill, input, mask, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(masked_fill, (input, mask, value,), {})

def masked_select(input, mask, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(mask) in _tensors:
                return _masked_select(input, mask)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(masked_select, (input, mask,), _given(('out', out, None)))

def nonzero(input, *, as_tuple=False, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(as_tuple) is _py_bool:
                return _nonzero(input, as_tuple=as_tuple)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nonzero, (input,), _given(('as_tuple', as_tuple, False), ('out', out, None)))

def scatter_add(input, dim, index, src, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(src) in _tensors and axis is _M:
                return _door.apply(_op_scatter_add, input, index, src, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(scatter_add, (input, dim, index, src,), _given(('out', out, None), ('axis', axis, _M)))

def take_along_dim(input, indices, dim=_M, *, out=None, axis=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(indices) in _tensors and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and axis is _M:
                return _take_along_dim(input, indices, None if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(take_along_dim, (input, indices,), _given(('dim', dim, _M), ('out', out, None), ('axis', axis, _M)))

def tril(input, diagonal=0, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(diagonal) is _py_int:
                return _door.apply(_op_tril, input, diagonal)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tril, (input,), _given(('diagonal', diagonal, 0), ('out', out, None)))

def triu(input, diagonal=0, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(diagonal) is _py_int:
                return _door.apply(_op_triu, input, diagonal)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(triu, (input,), _given(('diagonal', diagonal, 0), ('out', out, None)))

def atleast_1d(*args, **options):
    if _overrides:
        return _slow(atleast_1d, args, options)
    return _atleast_1d(*args, **options) if options else _atleast_1d(*args)

def atleast_2d(*args, **options):
    if _overrides:
        return _slow(atleast_2d, args, options)
    return _atleast_2d(*args, **options) if options else _atleast_2d(*args)

def atleast_3d(*args, **options):
    if _overrides:
        return _slow(atleast_3d, args, options)
    return _atleast_3d(*args, **options) if options else _atleast_3d(*args)

def block_diag(*args, **options):
    if _overrides:
        return _slow(block_diag, args, options)
    return _block_diag(*args, **options) if options else _block_diag(*args)

def broadcast_shapes(*args, **options):
    if _overrides:
        return _slow(broadcast_shapes, args, options)
    return _broadcast_shapes(*args, **options) if options else _broadcast_shapes(*args)

def broadcast_tensors(*args, **options):
    if _overrides:
        return _slow(broadcast_tensors, args, options)
    return _broadcast_tensors(*args, **options) if options else _broadcast_tensors(*args)

def cartesian_prod(*args, **options):
    if _overrides:
        return _slow(cartesian_prod, args, options)
    return _cartesian_prod(*args, **options) if options else _cartesian_prod(*args)

def cat(tensors, dim=_M, *, out=None, axis=_M):
    if out is None and _py_type(tensors) in _lists and _tensors.issuperset(_py_map(_py_type, tensors)) and (dim is _M or _py_type(dim) is _py_int) and axis is _M:
        return _door.apply(_op_cat, tensors, 0 if dim is _M else dim)
    return _slow(cat, (tensors,), _given(('dim', dim, _M), ('out', out, None), ('axis', axis, _M)))

def column_stack(tensors, *, out=None):
    if out is None and _py_type(tensors) in _lists and _tensors.issuperset(_py_map(_py_type, tensors)):
        return _column_stack(tensors)
    return _slow(column_stack, (tensors,), _given(('out', out, None)))

def combinations(input, r=2, with_replacement=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(r) is _py_int and _py_type(with_replacement) is _py_bool:
                return _combinations(input, r, with_replacement)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(combinations, (input,), _given(('r', r, 2), ('with_replacement', with_replacement, False)))

def diag(input, diagonal=0, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(diagonal) is _py_int:
                return _diag(input, diagonal)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(diag, (input,), _given(('diagonal', diagonal, 0), ('out', out, None)))

def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(offset) is _py_int and _py_type(dim1) is _py_int and _py_type(dim2) is _py_int:
                return _diag_embed(input, offset, dim1, dim2)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(diag_embed, (input,), _given(('offset', offset, 0), ('dim1', dim1, -2), ('dim2', dim2, -1)))

def diagflat(input, offset=0):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(offset) is _py_int:
                return _diagflat(input, offset)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(diagflat, (input,), _given(('offset', offset, 0)))

_known_dsplit = _py_set()

def dsplit(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_dsplit:
        return _dsplit(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_dsplit:
        return _dsplit(*args, **options)
    return _slow(dsplit, args, options, _known_dsplit)

def dstack(tensors, *, out=None):
    if out is None and _py_type(tensors) in _lists and _tensors.issuperset(_py_map(_py_type, tensors)):
        return _dstack(tensors)
    return _slow(dstack, (tensors,), _given(('out', out, None)))

def fliplr(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _fliplr(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(fliplr, (input,), {})

def flipud(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _flipud(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(flipud, (input,), {})

_known_hsplit = _py_set()

def hsplit(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_hsplit:
        return _hsplit(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_hsplit:
        return _hsplit(*args, **options)
    return _slow(hsplit, args, options, _known_hsplit)

def hstack(tensors, *, out=None):
    if out is None and _py_type(tensors) in _lists and _tensors.issuperset(_py_map(_py_type, tensors)):
        return _hstack(tensors)
    return _slow(hstack, (tensors,), _given(('out', out, None)))

def kron(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _kron(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(kron, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def meshgrid(*args, **options):
    if _overrides:
        return _slow(meshgrid, args, options)
    return _meshgrid(*args, **options) if options else _meshgrid(*args)

def pad(input, pad, mode='constant', value=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(pad) is _Size:
                pad = _py_tuple(pad)
            if _py_type(pad) is _py_list:
                pad = _as_row(pad)
            if _py_type(pad) is _py_tuple and pad in _sizes and _py_type(_py_sum(pad)) not in _other_sums and _py_type(mode) is _py_str and (value is None or _py_type(value) in _numbers):
                return _pad(input, pad, mode, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(_pad_itself, (input, pad,), _given(('mode', mode, 'constant'), ('value', value, None)))

_pad_itself = pad

def rot90(input, k=1, dims=(0, 1)):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dims) is _Size:
                dims = _py_tuple(dims)
            if _py_type(dims) is _py_list:
                dims = _as_row(dims)
            if _py_type(k) is _py_int and _py_type(dims) is _py_tuple and dims in _sizes and _py_type(_py_sum(dims)) not in _other_sums:
                return _rot90(input, k, dims)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rot90, (input,), _given(('k', k, 1), ('dims', dims, (0, 1))))

def vstack(tensors, *, out=None):
    if out is None and _py_type(tensors) in _lists and _tensors.issuperset(_py_map(_py_type, tensors)):
        return _vstack(tensors)
    return _slow(vstack, (tensors,), _given(('out', out, None)))

def split_with_sizes(input, split_sizes, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(split_sizes) is _Size:
                split_sizes = _py_tuple(split_sizes)
            if _py_type(split_sizes) is _py_list:
                split_sizes = _as_row(split_sizes)
            if _py_type(split_sizes) is _py_tuple and split_sizes in _sizes and _py_type(_py_sum(split_sizes)) not in _other_sums and (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _split_with_sizes(input, split_sizes, 0 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(split_with_sizes, (input, split_sizes,), _given(('dim', dim, _M), ('axis', axis, _M)))

def stack(tensors, dim=_M, *, out=None, axis=_M):
    if out is None and _py_type(tensors) in _lists and _tensors.issuperset(_py_map(_py_type, tensors)) and (dim is _M or _py_type(dim) is _py_int) and axis is _M:
        return _door.apply(_op_stack, tensors, 0 if dim is _M else dim)
    return _slow(stack, (tensors,), _given(('dim', dim, _M), ('out', out, None), ('axis', axis, _M)))

def sum_to_size(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _sum_to_size(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sum_to_size, (input, *sizes,), options)

_known_vsplit = _py_set()

def vsplit(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_vsplit:
        return _vsplit(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_vsplit:
        return _vsplit(*args, **options)
    return _slow(vsplit, args, options, _known_vsplit)

def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(kernel_size) is _py_list:
                kernel_size = _as_row(kernel_size)
            if _py_type(stride) is _py_list:
                stride = _as_row(stride)
            if _py_type(padding) is _py_list:
                padding = _as_row(padding)
            if (_py_type(kernel_size) is _py_int or _py_type(kernel_size) is _py_tuple and kernel_size in _sizes and _py_type(_py_sum(kernel_size)) not in _other_sums) and (stride is None or (_py_type(stride) is _py_int or _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums)) and (_py_type(padding) is _py_int or _py_type(padding) is _py_tuple and padding in _sizes and _py_type(_py_sum(padding)) not in _other_sums) and _py_type(ceil_mode) is _py_bool and _py_type(count_include_pad) is _py_bool and (divisor_override is None or _py_type(divisor_override) is _py_int):
                return _avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(avg_pool2d, (input, kernel_size,), _given(('stride', stride, None), ('padding', padding, 0), ('ceil_mode', ceil_mode, False), ('count_include_pad', count_include_pad, True), ('divisor_override', divisor_override, None), ('out', out, None)))

def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    if _py_type(input) in _tensors:
        try:
            if (running_mean is None or _py_type(running_mean) in _tensors) and (running_var is None or _py_type(running_var) in _tensors) and (weight is None or _py_type(weight) in _tensors) and (bias is None or _py_type(bias) in _tensors) and _py_type(training) is _py_bool and _py_type(momentum) in _numbers and _py_type(eps) in _numbers:
                return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(batch_norm, (input, running_mean, running_var,), _given(('weight', weight, None), ('bias', bias, None), ('training', training, False), ('momentum', momentum, 0.1), ('eps', eps, 1e-05)))

def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if _py_type(input) in _tensors:
        try:
            if _py_type(stride) is _py_list:
                stride = _as_row(stride)
            if _py_type(dilation) is _py_list:
                dilation = _as_row(dilation)
            if _py_type(weight) in _tensors and (bias is None or _py_type(bias) in _tensors) and (_py_type(stride) is _py_int or _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums) and (_py_type(padding) is _py_int or _py_type(padding) is _py_tuple and padding in _sizes and _py_type(_py_sum(padding)) not in _other_sums) and (_py_type(dilation) is _py_int or _py_type(dilation) is _py_tuple and dilation in _sizes and _py_type(_py_sum(dilation)) not in _other_sums) and _py_type(groups) is _py_int:
                return _conv2d(input, weight, bias, stride, padding, dilation, groups)
            if _py_type(weight) in _tensors and (bias is None or _py_type(bias) in _tensors) and (_py_type(stride) is _py_int or _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums) and _py_type(padding) is _py_str and (_py_type(dilation) is _py_int or _py_type(dilation) is _py_tuple and dilation in _sizes and _py_type(_py_sum(dilation)) not in _other_sums) and _py_type(groups) is _py_int:
                return _conv2d(input, weight, bias, stride, padding, dilation, groups)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(conv2d, (input, weight,), _given(('bias', bias, None), ('stride', stride, 1), ('padding', padding, 0), ('dilation', dilation, 1), ('groups', groups, 1)))

def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if _py_type(input) in _tensors:
        try:
            if _py_type(weight) in _tensors and (padding_idx is None or _py_type(padding_idx) is _py_int) and (max_norm is None or _py_type(max_norm) in _numbers) and _py_type(norm_type) in _numbers and _py_type(scale_grad_by_freq) is _py_bool and _py_type(sparse) is _py_bool:
                return _embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(embedding, (input, weight,), _given(('padding_idx', padding_idx, None), ('max_norm', max_norm, None), ('norm_type', norm_type, 2.0), ('scale_grad_by_freq', scale_grad_by_freq, False), ('sparse', sparse, False)))

def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(normalized_shape) is _Size:
                normalized_shape = _py_tuple(normalized_shape)
            if _py_type(normalized_shape) is _py_list:
                normalized_shape = _as_row(normalized_shape)
            if _py_type(normalized_shape) is _py_tuple and normalized_shape in _sizes and _py_type(_py_sum(normalized_shape)) not in _other_sums and (weight is None or _py_type(weight) in _tensors) and (bias is None or _py_type(bias) in _tensors) and _py_type(eps) in _numbers:
                return _layer_norm(input, normalized_shape, weight, bias, eps)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(layer_norm, (input, normalized_shape,), _given(('weight', weight, None), ('bias', bias, None), ('eps', eps, 1e-05)))

def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(kernel_size) is _py_list:
                kernel_size = _as_row(kernel_size)
            if _py_type(stride) is _py_list:
                stride = _as_row(stride)
            if _py_type(padding) is _py_list:
                padding = _as_row(padding)
            if _py_type(dilation) is _py_list:
                dilation = _as_row(dilation)
            if (_py_type(kernel_size) is _py_int or _py_type(kernel_size) is _py_tuple and kernel_size in _sizes and _py_type(_py_sum(kernel_size)) not in _other_sums) and (stride is None or (_py_type(stride) is _py_int or _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums)) and (_py_type(padding) is _py_int or _py_type(padding) is _py_tuple and padding in _sizes and _py_type(_py_sum(padding)) not in _other_sums) and (_py_type(dilation) is _py_int or _py_type(dilation) is _py_tuple and dilation in _sizes and _py_type(_py_sum(dilation)) not in _other_sums) and _py_type(ceil_mode) is _py_bool and _py_type(return_indices) is _py_bool:
                return _max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(max_pool2d, (input, kernel_size,), _given(('stride', stride, None), ('padding', padding, 0), ('dilation', dilation, 1), ('ceil_mode', ceil_mode, False), ('return_indices', return_indices, False)))

def normalize(input, p=2.0, dim=_M, eps=1e-12, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dim is _M or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums)) and _py_type(eps) in _numbers and axis is _M:
                return input / input.norm(p, 1 if dim is _M else dim, True).clamp_min(eps)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(normalize, (input,), _given(('p', p, 2.0), ('dim', dim, _M), ('eps', eps, 1e-12), ('out', out, None), ('axis', axis, _M)))

def one_hot(tensor, num_classes=-1):
    if not _overrides or _py_type(tensor) in _tensors:
        try:
            if _py_type(num_classes) is _py_int:
                return _one_hot(tensor, num_classes)
        except AttributeError:
            if _py_isinstance(tensor, _TensorBase):
                raise
    return _slow(one_hot, (tensor,), _given(('num_classes', num_classes, -1)))

def rms_norm(input, normalized_shape, weight=None, eps=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(normalized_shape) is _Size:
                normalized_shape = _py_tuple(normalized_shape)
            if _py_type(normalized_shape) is _py_list:
                normalized_shape = _as_row(normalized_shape)
            if _py_type(normalized_shape) is _py_tuple and normalized_shape in _sizes and _py_type(_py_sum(normalized_shape)) not in _other_sums and (weight is None or _py_type(weight) in _tensors) and (eps is None or _py_type(eps) in _numbers):
                return _rms_norm(input, normalized_shape, weight, eps)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rms_norm, (input, normalized_shape,), _given(('weight', weight, None), ('eps', eps, None)))

def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if _py_type(query) in _tensors:
        try:
            if _py_type(key) in _tensors and _py_type(value) in _tensors and (attn_mask is None or _py_type(attn_mask) in _tensors) and _py_type(dropout_p) in _numbers and _py_type(is_causal) is _py_bool and (scale is None or _py_type(scale) in _numbers) and _py_type(enable_gqa) is _py_bool:
                return _scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        except AttributeError:
            if _py_isinstance(query, _TensorBase):
                raise
    return _slow(scaled_dot_product_attention, (query, key, value,), _given(('attn_mask', attn_mask, None), ('dropout_p', dropout_p, 0.0), ('is_causal', is_causal, False), ('scale', scale, None), ('enable_gqa', enable_gqa, False)))

def addbmm(input, batch1, batch2, *_old, beta=1, alpha=1, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(batch1) in _tensors and _py_type(batch2) in _tensors and _py_type(beta) in _numbers and _py_type(alpha) in _numbers and not _old:
                return _addbmm(input, batch1, batch2, beta=beta, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addbmm, (input, batch1, batch2, *_old), _given(('beta', beta, 1), ('alpha', alpha, 1), ('out', out, None)))

def addmm(input, mat1, mat2, *_old, beta=1, alpha=1, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(mat1) in _tensors and _py_type(mat2) in _tensors and _py_type(beta) in _numbers and _py_type(alpha) in _numbers and not _old:
                return _addmm(input, mat1, mat2, beta=beta, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addmm, (input, mat1, mat2, *_old), _given(('beta', beta, 1), ('alpha', alpha, 1), ('out', out, None)))

def addmv(input, mat, vec, *_old, beta=1, alpha=1, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(mat) in _tensors and _py_type(vec) in _tensors and _py_type(beta) in _numbers and _py_type(alpha) in _numbers and not _old:
                return _addmv(input, mat, vec, beta=beta, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addmv, (input, mat, vec, *_old), _given(('beta', beta, 1), ('alpha', alpha, 1), ('out', out, None)))

def addr(input, vec1, vec2, *_old, beta=1, alpha=1, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(vec1) in _tensors and _py_type(vec2) in _tensors and _py_type(beta) in _numbers and _py_type(alpha) in _numbers and not _old:
                return _addr(input, vec1, vec2, beta=beta, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addr, (input, vec1, vec2, *_old), _given(('beta', beta, 1), ('alpha', alpha, 1), ('out', out, None)))

def baddbmm(input, batch1, batch2, *_old, beta=1, alpha=1, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(batch1) in _tensors and _py_type(batch2) in _tensors and _py_type(beta) in _numbers and _py_type(alpha) in _numbers and not _old:
                return _baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(baddbmm, (input, batch1, batch2, *_old), _given(('beta', beta, 1), ('alpha', alpha, 1), ('out', out, None)))

def bmm(input, mat2, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(mat2) in _tensors:
                return _bmm(input, mat2)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bmm, (input, mat2,), _given(('out', out, None)))

def chain_matmul(*args, **options):
    if _overrides or "out" in options:
        return _slow(chain_matmul, args, options)
    return _chain_matmul(*args, **options) if options else _chain_matmul(*args)

def cholesky(input, upper=False, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(upper) is _py_bool:
                return _cholesky(input, upper)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cholesky, (input,), _given(('upper', upper, False), ('out', out, None)))

def cholesky_inverse(input, upper=False, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(upper) is _py_bool:
                return _cholesky_inverse(input, upper)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cholesky_inverse, (input,), _given(('upper', upper, False), ('out', out, None)))

def cholesky_solve(input, input2, upper=False, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(input2) in _tensors and _py_type(upper) is _py_bool:
                return _cholesky_solve(input, input2, upper)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cholesky_solve, (input, input2,), _given(('upper', upper, False), ('out', out, None)))

def cross(input, other, dim=_M, *, out=None, axis=_M, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and axis is _M and x2 is _M:
                return _cross(input, other, None if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cross, (input, other,), _given(('dim', dim, _M), ('out', out, None), ('axis', axis, _M), ('x2', x2, _M)))

def det(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _det(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(det, (input,), {})

def dist(input, other, p=2, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and _py_type(p) in _numbers and x2 is _M:
                return (input - other).norm(p)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(dist, (input, other,), _given(('p', p, 2), ('x2', x2, _M)))

def dot(input, tensor, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(tensor) in _tensors:
                return _door.apply(_op_dot, input, tensor)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(dot, (input, tensor,), _given(('out', out, None)))

def outer(input, vec2, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(vec2) in _tensors:
                return _outer(input, vec2)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(outer, (input, vec2,), _given(('out', out, None)))

def inner(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _inner(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(inner, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def inverse(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _inverse(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(inverse, (input,), _given(('out', out, None)))

def linear(input, weight, bias=None, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(weight) in _tensors and (bias is None or _py_type(bias) in _tensors):
                return _linear(input, weight, bias)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(linear, (input, weight,), _given(('bias', bias, None), ('out', out, None)))

def logdet(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _logdet(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logdet, (input,), {})

def lu_solve(input, LU_data, LU_pivots, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(LU_data) in _tensors and _py_type(LU_pivots) in _tensors:
                return _lu_solve(input, LU_data, LU_pivots)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lu_solve, (input, LU_data, LU_pivots,), _given(('out', out, None)))

def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True, *, out=None):
    if out is None and (_py_type(LU_data) in _tensors):
        try:
            if _py_type(LU_pivots) in _tensors and _py_type(unpack_data) is _py_bool and _py_type(unpack_pivots) is _py_bool:
                return _lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots)
        except AttributeError:
            if _py_isinstance(LU_data, _TensorBase):
                raise
    return _slow(lu_unpack, (LU_data, LU_pivots,), _given(('unpack_data', unpack_data, True), ('unpack_pivots', unpack_pivots, True), ('out', out, None)))

def matmul(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _matmul(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(matmul, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def matrix_exp(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _matrix_exp(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(matrix_exp, (input,), {})

def matrix_power(input, n, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(n) is _py_int:
                return _matrix_power(input, n)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(matrix_power, (input, n,), _given(('out', out, None)))

def mm(input, mat2, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(mat2) in _tensors:
                return _mm(input, mat2)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(mm, (input, mat2,), _given(('out', out, None)))

def mv(input, vec, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(vec) in _tensors:
                return _door.apply(_op_mv, input, vec)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(mv, (input, vec,), _given(('out', out, None)))

def pinverse(input, rcond=1e-15):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(rcond) in _numbers:
                return _pinverse(input, rcond)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(pinverse, (input,), _given(('rcond', rcond, 1e-15)))

def qr(input, some=True, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(some) is _py_bool:
                return _qr(input, some)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(qr, (input,), _given(('some', some, True), ('out', out, None)))

def slogdet(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _slogdet(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(slogdet, (input,), _given(('out', out, None)))

def svd(input, some=True, compute_uv=True, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(some) is _py_bool and _py_type(compute_uv) is _py_bool:
                return _svd(input, some, compute_uv)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(svd, (input,), _given(('some', some, True), ('compute_uv', compute_uv, True), ('out', out, None)))

def trace(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _trace(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(trace, (input,), {})

def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(A) in _tensors and _py_type(upper) is _py_bool and _py_type(transpose) is _py_bool and _py_type(unitriangular) is _py_bool:
                return _triangular_solve(input, A, upper, transpose, unitriangular)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(triangular_solve, (input, A,), _given(('upper', upper, True), ('transpose', transpose, False), ('unitriangular', unitriangular, False), ('out', out, None)))

def vdot(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _vdot(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(vdot, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction='mean'):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (weight is None or _py_type(weight) in _tensors) and (size_average is None or True) and (reduce is None or True):
                return _binary_cross_entropy(input, target, weight, size_average, reduce, reduction)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(binary_cross_entropy, (input, target,), _given(('weight', weight, None), ('size_average', size_average, None), ('reduce', reduce, None), ('reduction', reduction, 'mean')))

def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (weight is None or _py_type(weight) in _tensors) and (size_average is None or True) and (reduce is None or True) and (pos_weight is None or _py_type(pos_weight) in _tensors):
                return _binary_cross_entropy_with_logits(input, target, weight, size_average, reduce, reduction, pos_weight)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(binary_cross_entropy_with_logits, (input, target,), _given(('weight', weight, None), ('size_average', size_average, None), ('reduce', reduce, None), ('reduction', reduction, 'mean'), ('pos_weight', pos_weight, None)))

def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (weight is None or _py_type(weight) in _tensors) and (size_average is None or True) and _py_type(ignore_index) is _py_int and (reduce is None or True) and _py_type(label_smoothing) in _numbers:
                return _cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cross_entropy, (input, target,), _given(('weight', weight, None), ('size_average', size_average, None), ('ignore_index', ignore_index, -100), ('reduce', reduce, None), ('reduction', reduction, 'mean'), ('label_smoothing', label_smoothing, 0.0)))

def huber_loss(input, target, reduction='mean', delta=1.0, weight=None):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and _py_type(delta) in _numbers and (weight is None or _py_type(weight) in _tensors):
                return _huber_loss(input, target, reduction, delta, weight)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(huber_loss, (input, target,), _given(('reduction', reduction, 'mean'), ('delta', delta, 1.0), ('weight', weight, None)))

def kl_div(input, target, size_average=None, reduce=None, reduction='mean', log_target=False):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (size_average is None or True) and (reduce is None or True) and _py_type(log_target) is _py_bool:
                return _kl_div(input, target, size_average, reduce, reduction, log_target)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(kl_div, (input, target,), _given(('size_average', size_average, None), ('reduce', reduce, None), ('reduction', reduction, 'mean'), ('log_target', log_target, False)))

def l1_loss(input, target, size_average=None, reduce=None, reduction='mean', weight=None):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (size_average is None or True) and (reduce is None or True) and (weight is None or _py_type(weight) in _tensors):
                return _l1_loss(input, target, size_average, reduce, reduction, weight)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(l1_loss, (input, target,), _given(('size_average', size_average, None), ('reduce', reduce, None), ('reduction', reduction, 'mean'), ('weight', weight, None)))

def mse_loss(input, target, size_average=None, reduce=None, reduction='mean', weight=None):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (size_average is None or True) and (reduce is None or True) and (weight is None or _py_type(weight) in _tensors):
                return _mse_loss(input, target, size_average, reduce, reduction, weight)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(mse_loss, (input, target,), _given(('size_average', size_average, None), ('reduce', reduce, None), ('reduction', reduction, 'mean'), ('weight', weight, None)))

def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (weight is None or _py_type(weight) in _tensors) and (size_average is None or True) and _py_type(ignore_index) is _py_int and (reduce is None or True):
                return _nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nll_loss, (input, target,), _given(('weight', weight, None), ('size_average', size_average, None), ('ignore_index', ignore_index, -100), ('reduce', reduce, None), ('reduction', reduction, 'mean')))

def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction='mean', beta=1.0):
    if _py_type(input) in _tensors:
        try:
            if _py_type(target) in _tensors and (size_average is None or True) and (reduce is None or True) and _py_type(beta) in _numbers:
                return _smooth_l1_loss(input, target, size_average, reduce, reduction, beta)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(smooth_l1_loss, (input, target,), _given(('size_average', size_average, None), ('reduce', reduce, None), ('reduction', reduction, 'mean'), ('beta', beta, 1.0)))

def argsort(input, dim=_M, descending=False, *, stable=False, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (dim is _M or _py_type(dim) is _py_int) and _py_type(descending) is _py_bool and _py_type(stable) is _py_bool and axis is _M:
                return _argsort(input, -1 if dim is _M else dim, descending, stable=stable)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(argsort, (input,), _given(('dim', dim, _M), ('descending', descending, False), ('stable', stable, False), ('out', out, None), ('axis', axis, _M)))

def bincount(input, weights=None, minlength=0):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (weights is None or _py_type(weights) in _tensors) and _py_type(minlength) is _py_int:
                return _bincount(input, weights, minlength)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bincount, (input,), _given(('weights', weights, None), ('minlength', minlength, 0)))

def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    if out is None and _py_type(input) in _operands and _py_type(boundaries) in _tensors and _py_type(out_int32) is _py_bool and _py_type(right) is _py_bool:
        return _bucketize(input, boundaries, out_int32=out_int32, right=right)
    return _slow(bucketize, (input, boundaries,), _given(('out_int32', out_int32, False), ('right', right, False), ('out', out, None)))

def histc(input, bins=100, min=0, max=0, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(bins) is _py_int and _py_type(min) in _numbers and _py_type(max) in _numbers:
                return _histc(input, bins, min, max)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(histc, (input,), _given(('bins', bins, 100), ('min', min, 0), ('max', max, 0), ('out', out, None)))

def histogram(input, bins=100, *, weight=None, density=False, range=_M, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(bins) in _tensors and (weight is None or _py_type(weight) in _tensors) and _py_type(density) is _py_bool and range is _M:
                return _histogram(input, bins, weight=weight, density=density)
            if _py_type(bins) is _py_int and (range is _M or (range is None or True)) and (weight is None or _py_type(weight) in _tensors) and _py_type(density) is _py_bool:
                return _histogram(input, bins, range=None if range is _M else range, weight=weight, density=density)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(histogram, (input,), _given(('bins', bins, 100), ('weight', weight, None), ('density', density, False), ('range', range, _M), ('out', out, None)))

_known_isin = _py_set()

def isin(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_isin:
        return _isin(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_isin:
        return _isin(*args, **options)
    return _slow(isin, args, options, _known_isin)

def kthvalue(input, k, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(k) is _py_int and (dim is _M or _py_type(dim) is _py_int) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _kthvalue(input, k, -1 if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(kthvalue, (input, k,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def median(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if dim is _M and keepdim is _M and axis is _M and keepdims is _M:
                return _median(input)
            if _py_type(dim) is _py_int and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _median(input, dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(median, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def mode(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (dim is _M or _py_type(dim) is _py_int) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _mode(input, -1 if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(mode, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def msort(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _msort(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(msort, (input,), _given(('out', out, None)))

def nanmedian(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if dim is _M and keepdim is _M and axis is _M and keepdims is _M:
                return _nanmedian(input)
            if _py_type(dim) is _py_int and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _nanmedian(input, dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nanmedian, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def nanquantile(input, q, dim=_M, keepdim=_M, *, interpolation='linear', out=None, axis=_M, keepdims=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(q) in _operands and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and (keepdim is _M or _py_type(keepdim) is _py_bool) and _py_type(interpolation) is _py_str and axis is _M and keepdims is _M:
                return _nanquantile(input, q, None if dim is _M else dim, False if keepdim is _M else keepdim, interpolation=interpolation)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nanquantile, (input, q,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('interpolation', interpolation, 'linear'), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def quantile(input, q, dim=_M, keepdim=_M, *, interpolation='linear', out=None, axis=_M, keepdims=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(q) in _operands and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and (keepdim is _M or _py_type(keepdim) is _py_bool) and _py_type(interpolation) is _py_str and axis is _M and keepdims is _M:
                return _quantile(input, q, None if dim is _M else dim, False if keepdim is _M else keepdim, interpolation=interpolation)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(quantile, (input, q,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('interpolation', interpolation, 'linear'), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None, out=None):
    if out is None and (_py_type(sorted_sequence) in _tensors):
        try:
            if _py_type(input) in _operands and _py_type(out_int32) is _py_bool and _py_type(right) is _py_bool and (side is None or _py_type(side) is _py_str) and (sorter is None or _py_type(sorter) in _tensors):
                return _searchsorted(sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter)
        except AttributeError:
            if _py_isinstance(sorted_sequence, _TensorBase):
                raise
    return _slow(searchsorted, (sorted_sequence, input,), _given(('out_int32', out_int32, False), ('right', right, False), ('side', side, None), ('sorter', sorter, None), ('out', out, None)))

def sort(input, dim=_M, descending=False, *, stable=None, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (dim is _M or _py_type(dim) is _py_int) and _py_type(descending) is _py_bool and (stable is None or _py_type(stable) is _py_bool) and axis is _M:
                return _sort(input, -1 if dim is _M else dim, descending, stable=stable)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sort, (input,), _given(('dim', dim, _M), ('descending', descending, False), ('stable', stable, None), ('out', out, None), ('axis', axis, _M)))

def topk(input, k, dim=_M, largest=True, sorted=True, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(k) is _py_int and (dim is _M or _py_type(dim) is _py_int) and _py_type(largest) is _py_bool and _py_type(sorted) is _py_bool and axis is _M:
                return _topk(input, k, -1 if dim is _M else dim, largest, sorted)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(topk, (input, k,), _given(('dim', dim, _M), ('largest', largest, True), ('sorted', sorted, True), ('out', out, None), ('axis', axis, _M)))

def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(sorted) is _py_bool and _py_type(return_inverse) is _py_bool and _py_type(return_counts) is _py_bool and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and axis is _M:
                return _unique(input, sorted, return_inverse, return_counts, None if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unique, (input,), _given(('sorted', sorted, True), ('return_inverse', return_inverse, False), ('return_counts', return_counts, False), ('dim', dim, _M), ('axis', axis, _M)))

def unique_consecutive(input, return_inverse=False, return_counts=False, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(return_inverse) is _py_bool and _py_type(return_counts) is _py_bool and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and axis is _M:
                return _unique_consecutive(input, return_inverse, return_counts, None if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unique_consecutive, (input,), _given(('return_inverse', return_inverse, False), ('return_counts', return_counts, False), ('dim', dim, _M), ('axis', axis, _M)))

def abs(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_abs, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(abs, (input,), _given(('out', out, None)))

def acos(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_acos, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(acos, (input,), _given(('out', out, None)))

def acosh(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_acosh, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(acosh, (input,), _given(('out', out, None)))

def add(input, other, *_old, alpha=1, out=None, x2=_M):
    if out is None and _py_type(input) in _operands and _py_type(other) in _operands and _py_type(alpha) in _numbers and x2 is _M and not _old:
        return _door.apply(_op_add, input, other) if alpha == 1 else _door.apply(_op_add_scaled, input, other, alpha)
    return _slow(add, (input, other, *_old), _given(('alpha', alpha, 1), ('out', out, None), ('x2', x2, _M)))

def addcdiv(input, tensor1, tensor2, *_old, value=1, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(tensor1) in _tensors and _py_type(tensor2) in _tensors and _py_type(value) in _numbers and not _old:
                return _door.apply(_op_addcdiv, input, tensor1, tensor2, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addcdiv, (input, tensor1, tensor2, *_old), _given(('value', value, 1), ('out', out, None)))

def addcmul(input, tensor1, tensor2, *_old, value=1, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(tensor1) in _tensors and _py_type(tensor2) in _tensors and _py_type(value) in _numbers and not _old:
                return _door.apply(_op_addcmul, input, tensor1, tensor2, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addcmul, (input, tensor1, tensor2, *_old), _given(('value', value, 1), ('out', out, None)))

def asin(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_asin, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(asin, (input,), _given(('out', out, None)))

def asinh(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_asinh, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(asinh, (input,), _given(('out', out, None)))

def atan(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_atan, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(atan, (input,), _given(('out', out, None)))

def atan2(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_atan2, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(atan2, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def atanh(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_atanh, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(atanh, (input,), _given(('out', out, None)))

def bitwise_and(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _tensors and _py_type(other) in _operands and x2 is _M:
        return _door.apply(_op_bitwise_and, input, other)
    if out is None and _py_type(input) in _numbers and _py_type(other) in _tensors and x2 is _M:
        return _door.apply(_op_bitwise_and, input, other)
    return _slow(bitwise_and, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def bitwise_left_shift(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _tensors and _py_type(other) in _operands and x2 is _M:
        return _bitwise_left_shift(input, other)
    if out is None and _py_type(input) in _numbers and _py_type(other) in _tensors and x2 is _M:
        return _bitwise_left_shift(input, other)
    return _slow(bitwise_left_shift, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def bitwise_not(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_bitwise_not, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bitwise_not, (input,), _given(('out', out, None)))

def bitwise_or(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _tensors and _py_type(other) in _operands and x2 is _M:
        return _door.apply(_op_bitwise_or, input, other)
    if out is None and _py_type(input) in _numbers and _py_type(other) in _tensors and x2 is _M:
        return _door.apply(_op_bitwise_or, input, other)
    return _slow(bitwise_or, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def bitwise_right_shift(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _tensors and _py_type(other) in _operands and x2 is _M:
        return _bitwise_right_shift(input, other)
    if out is None and _py_type(input) in _numbers and _py_type(other) in _tensors and x2 is _M:
        return _bitwise_right_shift(input, other)
    return _slow(bitwise_right_shift, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def bitwise_xor(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _tensors and _py_type(other) in _operands and x2 is _M:
        return _door.apply(_op_bitwise_xor, input, other)
    if out is None and _py_type(input) in _numbers and _py_type(other) in _tensors and x2 is _M:
        return _door.apply(_op_bitwise_xor, input, other)
    return _slow(bitwise_xor, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def ceil(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_ceil, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ceil, (input,), _given(('out', out, None)))

def clamp(input, min=None, max=None, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (min is None or _py_type(min) in _tensors) and (max is None or _py_type(max) in _tensors):
                return _clamp(input, min, max)
            if (min is None or _py_type(min) in _numbers) and (max is None or _py_type(max) in _numbers):
                return _clamp(input, min, max)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(clamp, (input,), _given(('min', min, None), ('max', max, None), ('out', out, None)))

def clamp_max(input, max, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(max) in _operands:
                return _door.apply(_op_clamp_max, input, max)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(clamp_max, (input, max,), _given(('out', out, None)))

def clamp_min(input, min, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(min) in _operands:
                return _door.apply(_op_clamp_min, input, min)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(clamp_min, (input, min,), _given(('out', out, None)))

def copysign(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _copysign(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(copysign, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def cos(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_cos, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cos, (input,), _given(('out', out, None)))

def cosh(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_cosh, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cosh, (input,), _given(('out', out, None)))

def deg2rad(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_deg2rad, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(deg2rad, (input,), _given(('out', out, None)))

def digamma(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_digamma, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(digamma, (input,), _given(('out', out, None)))

def div(input, other, *, rounding_mode=_M, out=None, x2=_M):
    if out is None and _py_type(input) in _operands and _py_type(other) in _operands and rounding_mode is _M and x2 is _M:
        return _div(input, other)
    if out is None and _py_type(input) in _operands and _py_type(other) in _operands and (rounding_mode is None or _py_type(rounding_mode) is _py_str) and x2 is _M:
        return _div(input, other, rounding_mode=rounding_mode)
    return _slow(div, (input, other,), _given(('rounding_mode', rounding_mode, _M), ('out', out, None), ('x2', x2, _M)))

def eq(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_eq, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(eq, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def erf(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_erf, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(erf, (input,), _given(('out', out, None)))

def erfc(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_erfc, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(erfc, (input,), _given(('out', out, None)))

def erfinv(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_erfinv, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(erfinv, (input,), _given(('out', out, None)))

def exp(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_exp, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(exp, (input,), _given(('out', out, None)))

def exp2(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_exp2, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(exp2, (input,), _given(('out', out, None)))

def expm1(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_expm1, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(expm1, (input,), _given(('out', out, None)))

def trunc(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_trunc, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(trunc, (input,), _given(('out', out, None)))

def float_power(input, exponent, *, out=None):
    if out is None and _py_type(input) in _tensors and _py_type(exponent) in _operands:
        return _float_power(input, exponent)
    if out is None and _py_type(input) in _numbers and _py_type(exponent) in _tensors:
        return _float_power(input, exponent)
    return _slow(float_power, (input, exponent,), _given(('out', out, None)))

def floor(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_floor, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(floor, (input,), _given(('out', out, None)))

def floor_divide(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _operands and _py_type(other) in _operands and x2 is _M:
        return _door.apply(_op_floor_divide, input, other)
    return _slow(floor_divide, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def fmax(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _fmax(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(fmax, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def fmin(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _fmin(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(fmin, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def fmod(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_fmod, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(fmod, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def frac(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_frac, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(frac, (input,), _given(('out', out, None)))

def gcd(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _gcd(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(gcd, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def ge(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_ge, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ge, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def gt(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_gt, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(gt, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def heaviside(input, values, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(values) in _tensors:
                return _heaviside(input, values)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(heaviside, (input, values,), _given(('out', out, None)))

def hypot(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _hypot(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(hypot, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def i0(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_i0, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(i0, (input,), _given(('out', out, None)))

def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and _py_type(rtol) in _numbers and _py_type(atol) in _numbers and _py_type(equal_nan) is _py_bool and x2 is _M:
                return _door.apply(_op_isclose, input, other, rtol, atol, equal_nan)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(isclose, (input, other,), _given(('rtol', rtol, 1e-05), ('atol', atol, 1e-08), ('equal_nan', equal_nan, False), ('x2', x2, _M)))

def isfinite(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_isfinite, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(isfinite, (input,), {})

def isinf(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_isinf, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(isinf, (input,), {})

def isnan(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_isnan, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(isnan, (input,), {})

def isneginf(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_isneginf, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(isneginf, (input,), _given(('out', out, None)))

def isposinf(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_isposinf, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(isposinf, (input,), _given(('out', out, None)))

def isreal(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_isreal, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(isreal, (input,), {})

def lcm(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _lcm(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lcm, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def ldexp(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _ldexp(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ldexp, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def le(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_le, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(le, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def lerp(input, end, weight, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(end) in _tensors and _py_type(weight) in _operands:
                return _door.apply(_op_lerp, input, end, weight)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lerp, (input, end, weight,), _given(('out', out, None)))

def lt(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_lt, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lt, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def lgamma(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_lgamma, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lgamma, (input,), _given(('out', out, None)))

def log(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_log, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log, (input,), _given(('out', out, None)))

def log1p(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_log1p, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log1p, (input,), _given(('out', out, None)))

def log2(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_log2, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log2, (input,), _given(('out', out, None)))

def log10(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_log10, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log10, (input,), _given(('out', out, None)))

def logaddexp(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_logaddexp, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logaddexp, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def logaddexp2(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _logaddexp2(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logaddexp2, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def logical_and(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_logical_and, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_and, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def logical_not(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_logical_not, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_not, (input,), _given(('out', out, None)))

def logical_or(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_logical_or, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_or, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def logical_xor(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_logical_xor, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_xor, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def logit(input, eps=None, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (eps is None or _py_type(eps) in _numbers):
                return _door.apply(_op_logit, input, eps)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logit, (input,), _given(('eps', eps, None), ('out', out, None)))

def maximum(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_maximum, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(maximum, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def minimum(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_minimum, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(minimum, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def mul(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _operands and _py_type(other) in _operands and x2 is _M:
        return _door.apply(_op_mul, input, other)
    return _slow(mul, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def nan_to_num(input, nan=None, posinf=None, neginf=None, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (nan is None or _py_type(nan) in _numbers) and (posinf is None or _py_type(posinf) in _numbers) and (neginf is None or _py_type(neginf) in _numbers):
                return _nan_to_num(input, nan, posinf, neginf)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nan_to_num, (input,), _given(('nan', nan, None), ('posinf', posinf, None), ('neginf', neginf, None), ('out', out, None)))

def ne(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_ne, input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ne, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def neg(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_neg, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(neg, (input,), _given(('out', out, None)))

def nextafter(input, other, *, out=None, x2=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _nextafter(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nextafter, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def polygamma(n, input, *, out=None):
    if out is None and _py_type(n) is _py_int and _py_type(input) in _tensors:
        return _door.apply(_op_polygamma, input, n)
    return _slow(polygamma, (n, input,), _given(('out', out, None)))

def positive(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _positive(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(positive, (input,), {})

def pow(input, exponent, *, out=None):
    if out is None and _py_type(input) in _tensors and _py_type(exponent) in _operands:
        return _pow(input, exponent)
    if out is None and _py_type(input) in _numbers and _py_type(exponent) in _tensors:
        return _pow(input, exponent)
    return _slow(pow, (input, exponent,), _given(('out', out, None)))

def rad2deg(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_rad2deg, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rad2deg, (input,), _given(('out', out, None)))

def reciprocal(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_reciprocal, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(reciprocal, (input,), _given(('out', out, None)))

def relu(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_relu, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(relu, (input,), {})

def remainder(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _tensors and _py_type(other) in _operands and x2 is _M:
        return _door.apply(_op_remainder, input, other)
    if out is None and _py_type(input) in _numbers and _py_type(other) in _tensors and x2 is _M:
        return _door.apply(_op_remainder, input, other)
    return _slow(remainder, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def round(input, *, decimals=_M, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if decimals is _M:
                return _round(input)
            if _py_type(decimals) is _py_int:
                return _round(input, decimals=decimals)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(round, (input,), _given(('decimals', decimals, _M), ('out', out, None)))

def rsqrt(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_rsqrt, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rsqrt, (input,), _given(('out', out, None)))

def rsub(input, other, *, alpha=1, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and _py_type(alpha) in _numbers and x2 is _M:
                return _rsub(input, other, alpha=alpha)
            if _py_type(other) in _numbers and _py_type(alpha) in _numbers and x2 is _M:
                return _rsub(input, other, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rsub, (input, other,), _given(('alpha', alpha, 1), ('x2', x2, _M)))

def sgn(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_sgn, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sgn, (input,), _given(('out', out, None)))

def sigmoid(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_sigmoid, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sigmoid, (input,), _given(('out', out, None)))

def sign(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_sign, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sign, (input,), _given(('out', out, None)))

def signbit(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_signbit, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(signbit, (input,), _given(('out', out, None)))

def sin(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_sin, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sin, (input,), _given(('out', out, None)))

def sinc(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_sinc, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sinc, (input,), _given(('out', out, None)))

def sinh(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_sinh, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sinh, (input,), _given(('out', out, None)))

def sqrt(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_sqrt, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sqrt, (input,), _given(('out', out, None)))

def square(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_pow_scalar, input, 2)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(square, (input,), _given(('out', out, None)))

def sub(input, other, *_old, alpha=1, out=None, x2=_M):
    if out is None and _py_type(input) in _operands and _py_type(other) in _operands and _py_type(alpha) in _numbers and x2 is _M and not _old:
        return _door.apply(_op_sub, input, other) if alpha == 1 else _door.apply(_op_sub_scaled, input, other, alpha)
    return _slow(sub, (input, other, *_old), _given(('alpha', alpha, 1), ('out', out, None), ('x2', x2, _M)))

def tan(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_tan, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tan, (input,), _given(('out', out, None)))

def tanh(input, *, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            return _door.apply(_op_tanh, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tanh, (input,), _given(('out', out, None)))

def where(condition, input=_M, other=_M, *, out=None, x2=_M):
    if out is None and (_py_type(condition) in _tensors):
        try:
            if input is _M and other is _M and x2 is _M:
                return _where(condition)
            if _py_type(input) in _operands and _py_type(other) in _operands and x2 is _M:
                return _where(condition, input, other)
        except AttributeError:
            if _py_isinstance(condition, _TensorBase):
                raise
    return _slow(where, (condition,), _given(('input', input, _M), ('other', other, _M), ('out', out, None), ('x2', x2, _M)))

def xlogy(input, other, *, out=None, x2=_M):
    if out is None and _py_type(input) in _tensors and _py_type(other) in _operands and x2 is _M:
        return _xlogy(input, other)
    if out is None and _py_type(input) in _numbers and _py_type(other) in _tensors and x2 is _M:
        return _xlogy(input, other)
    return _slow(xlogy, (input, other,), _given(('out', out, None), ('x2', x2, _M)))

def all(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if dim is _M and keepdim is _M and axis is _M and keepdims is _M:
                return _all(input)
            if (dim is _M or (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums))) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _all(input, None if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(all, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and _py_type(rtol) in _numbers and _py_type(atol) in _numbers and _py_type(equal_nan) is _py_bool and x2 is _M:
                return _allclose(input, other, rtol, atol, equal_nan)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(allclose, (input, other,), _given(('rtol', rtol, 1e-05), ('atol', atol, 1e-08), ('equal_nan', equal_nan, False), ('x2', x2, _M)))

def amax(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dim is _M or (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums))) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _amax(input, None if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(amax, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def amin(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dim is _M or (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums))) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _amin(input, None if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(amin, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def aminmax(input, *, dim=_M, keepdim=_M, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (dim is _M or (dim is None or _py_type(dim) is _py_int)) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _aminmax(input, dim=None if dim is _M else dim, keepdim=False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(aminmax, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def any(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if dim is _M and keepdim is _M and axis is _M and keepdims is _M:
                return _any(input)
            if (dim is _M or (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums))) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _any(input, None if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(any, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def argmax(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (dim is _M or (dim is None or _py_type(dim) is _py_int)) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _door.apply(_op_argmax, input, None if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(argmax, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def argmin(input, dim=_M, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (dim is _M or (dim is None or _py_type(dim) is _py_int)) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _door.apply(_op_argmin, input, None if dim is _M else dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(argmin, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def count_nonzero(input, dim=_M, *dims, axis=_M):
    if dims:
        return _slow(count_nonzero, (input, (dim, *dims)), {})
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dim is _M or (dim is None or _py_type(dim) is _py_int)) and axis is _M:
                return _count_nonzero(input, None if dim is _M else dim)
            if (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums) and axis is _M:
                return _count_nonzero(input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(count_nonzero, (input,), _given(('dim', dim, _M), ('axis', axis, _M)))

def cummax(input, dim, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and axis is _M:
                return _cummax(input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cummax, (input, dim,), _given(('out', out, None), ('axis', axis, _M)))

def cummin(input, dim, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and axis is _M:
                return _cummin(input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cummin, (input, dim,), _given(('out', out, None), ('axis', axis, _M)))

def cumprod(input, dim, *, dtype=None, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and (dtype is None or _py_type(dtype) is _DType) and axis is _M:
                return _cumprod(input, dim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cumprod, (input, dim,), _given(('dtype', dtype, None), ('out', out, None), ('axis', axis, _M)))

def cumsum(input, dim, *, dtype=None, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and (dtype is None or _py_type(dtype) is _DType) and axis is _M:
                return _cumsum(input, dim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cumsum, (input, dim,), _given(('dtype', dtype, None), ('out', out, None), ('axis', axis, _M)))

def cumulative_trapezoid(y, x=_M, *, dim=_M, dx=_M, axis=_M):
    if _py_type(y) in _tensors:
        try:
            if _py_type(x) in _tensors and (dim is _M or _py_type(dim) is _py_int) and dx is _M and axis is _M:
                return _cumulative_trapezoid(y, x, dim=-1 if dim is _M else dim)
            if (dx is _M or _py_type(dx) in _numbers) and (dim is _M or _py_type(dim) is _py_int) and x is _M and axis is _M:
                return _cumulative_trapezoid(y, dx=1 if dx is _M else dx, dim=-1 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(y, _TensorBase):
                raise
    return _slow(cumulative_trapezoid, (y,), _given(('x', x, _M), ('dim', dim, _M), ('dx', dx, _M), ('axis', axis, _M)))

def diff(input, n=1, dim=_M, prepend=None, append=None, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(n) is _py_int and (dim is _M or _py_type(dim) is _py_int) and (prepend is None or _py_type(prepend) in _tensors) and (append is None or _py_type(append) in _tensors) and axis is _M:
                return _diff(input, n, -1 if dim is _M else dim, prepend, append)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(diff, (input,), _given(('n', n, 1), ('dim', dim, _M), ('prepend', prepend, None), ('append', append, None), ('out', out, None), ('axis', axis, _M)))

def equal(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _equal(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(equal, (input, other,), _given(('x2', x2, _M)))

def is_complex(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _is_complex(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(is_complex, (input,), {})

def is_floating_point(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _is_floating_point(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(is_floating_point, (input,), {})

def is_nonzero(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _is_nonzero(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(is_nonzero, (input,), {})

def is_same_size(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _is_same_size(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(is_same_size, (input, other,), _given(('x2', x2, _M)))

def is_signed(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _is_signed(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(is_signed, (input,), {})

def log_softmax(input, dim, dtype=None, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and (dtype is None or _py_type(dtype) is _DType) and axis is _M:
                return _door.apply(_op__log_softmax, input if dtype is None else input.to(dtype), dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log_softmax, (input, dim,), _given(('dtype', dtype, None), ('out', out, None), ('axis', axis, _M)))

def logcumsumexp(input, dim, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and axis is _M:
                return _logcumsumexp(input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logcumsumexp, (input, dim,), _given(('out', out, None), ('axis', axis, _M)))

def logsumexp(input, dim, keepdim=_M, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums) and (keepdim is _M or _py_type(keepdim) is _py_bool) and axis is _M and keepdims is _M:
                return _logsumexp(input, dim, False if keepdim is _M else keepdim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logsumexp, (input, dim,), _given(('keepdim', keepdim, _M), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

_known_max = _py_set()

def max(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_max:
        return _max(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_max:
        return _max(*args, **options)
    return _slow(max, args, options, _known_max)

def mean(input, dim=_M, keepdim=_M, *, dtype=None, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dtype is None or _py_type(dtype) is _DType) and dim is _M and keepdim is _M and axis is _M and keepdims is _M:
                return _mean(input, dtype=dtype)
            if (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums)) and (keepdim is _M or _py_type(keepdim) is _py_bool) and (dtype is None or _py_type(dtype) is _DType) and axis is _M and keepdims is _M:
                return _mean(input, dim, False if keepdim is _M else keepdim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(mean, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('dtype', dtype, None), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

_known_min = _py_set()

def min(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_min:
        return _min(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_min:
        return _min(*args, **options)
    return _slow(min, args, options, _known_min)

def nanmean(input, dim=_M, keepdim=_M, *, dtype=None, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dim is _M or (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums))) and (keepdim is _M or _py_type(keepdim) is _py_bool) and (dtype is None or _py_type(dtype) is _DType) and axis is _M and keepdims is _M:
                return _nanmean(input, None if dim is _M else dim, False if keepdim is _M else keepdim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nanmean, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('dtype', dtype, None), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def nansum(input, dim=_M, keepdim=_M, *, dtype=None, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dim is _M or (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums))) and (keepdim is _M or _py_type(keepdim) is _py_bool) and (dtype is None or _py_type(dtype) is _DType) and axis is _M and keepdims is _M:
                return _nansum(input, None if dim is _M else dim, False if keepdim is _M else keepdim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nansum, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('dtype', dtype, None), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def norm(input, p='fro', dim=_M, keepdim=_M, dtype=None, *, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dim is _M or (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums))) and (keepdim is _M or _py_type(keepdim) is _py_bool) and (dtype is None or _py_type(dtype) is _DType) and axis is _M and keepdims is _M:
                return _norm(input, p, None if dim is _M else dim, False if keepdim is _M else keepdim, dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(norm, (input,), _given(('p', p, 'fro'), ('dim', dim, _M), ('keepdim', keepdim, _M), ('dtype', dtype, None), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def prod(input, dim=_M, keepdim=_M, *, dtype=None, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (dtype is None or _py_type(dtype) is _DType) and dim is _M and keepdim is _M and axis is _M and keepdims is _M:
                return _prod(input, dtype=dtype)
            if _py_type(dim) is _py_int and (keepdim is _M or _py_type(keepdim) is _py_bool) and (dtype is None or _py_type(dtype) is _DType) and axis is _M and keepdims is _M:
                return _prod(input, dim, False if keepdim is _M else keepdim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(prod, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('dtype', dtype, None), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def softmax(input, dim, dtype=None, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and (dtype is None or _py_type(dtype) is _DType) and axis is _M:
                return _door.apply(_op__softmax, input if dtype is None else input.to(dtype), dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(softmax, (input, dim,), _given(('dtype', dtype, None), ('out', out, None), ('axis', axis, _M)))

_known_std = _py_set()

def std(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_std:
        return _std(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_std:
        return _std(*args, **options)
    return _slow(std, args, options, _known_std)

def sum(input, dim=_M, keepdim=_M, *, dtype=None, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if (dtype is None or _py_type(dtype) is _DType) and dim is _M and keepdim is _M and axis is _M and keepdims is _M:
                return _sum(input, dtype=dtype)
            if (dim is None or (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums)) and (keepdim is _M or _py_type(keepdim) is _py_bool) and (dtype is None or _py_type(dtype) is _DType) and axis is _M and keepdims is _M:
                return _sum(input, dim, False if keepdim is _M else keepdim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sum, (input,), _given(('dim', dim, _M), ('keepdim', keepdim, _M), ('dtype', dtype, None), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def trapezoid(y, x=_M, *, dim=_M, dx=_M, axis=_M):
    if _py_type(y) in _tensors:
        try:
            if _py_type(x) in _tensors and (dim is _M or _py_type(dim) is _py_int) and dx is _M and axis is _M:
                return _trapezoid(y, x, dim=-1 if dim is _M else dim)
            if (dx is _M or _py_type(dx) in _numbers) and (dim is _M or _py_type(dim) is _py_int) and x is _M and axis is _M:
                return _trapezoid(y, dx=1 if dx is _M else dx, dim=-1 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(y, _TensorBase):
                raise
    return _slow(trapezoid, (y,), _given(('x', x, _M), ('dim', dim, _M), ('dx', dx, _M), ('axis', axis, _M)))

_known_var = _py_set()

def var(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_var:
        return _var(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_var:
        return _var(*args, **options)
    return _slow(var, args, options, _known_var)

def vector_norm(x, ord=2, dim=_M, keepdim=_M, *, dtype=None, out=None, axis=_M, keepdims=_M):
    if out is None and (not _overrides or _py_type(x) in _tensors):
        try:
            if (dim is _M or (dim is None or True)) and (keepdim is _M or True) and (dtype is None or _py_type(dtype) is _DType) and axis is _M and keepdims is _M:
                return _vector_norm(x, ord, None if dim is _M else dim, False if keepdim is _M else keepdim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(x, _TensorBase):
                raise
    return _slow(vector_norm, (x,), _given(('ord', ord, 2), ('dim', dim, _M), ('keepdim', keepdim, _M), ('dtype', dtype, None), ('out', out, None), ('axis', axis, _M), ('keepdims', keepdims, _M)))

def bernoulli(input, p=_M, *, generator=None, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if (generator is None or True) and p is _M:
                return _bernoulli(input, generator=generator)
            if _py_type(p) in _numbers and (generator is None or True):
                return _bernoulli(input, p, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bernoulli, (input,), _given(('p', p, _M), ('generator', generator, None), ('out', out, None)))

def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(num_samples) is _py_int and _py_type(replacement) is _py_bool and (generator is None or True):
                return _multinomial(input, num_samples, replacement, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(multinomial, (input, num_samples,), _given(('replacement', replacement, False), ('generator', generator, None), ('out', out, None)))

def normal(mean, std=1.0, size=_M, *, generator=None, dtype=_M, device=_M, requires_grad=_M, layout=_M, pin_memory=_M, out=None):
    if _py_type(size) is _Size:
        size = _py_tuple(size)
    if _py_type(size) is _py_list:
        size = _as_row(size)
    if out is None and _py_type(mean) in _tensors and _py_type(std) in _tensors and (generator is None or True) and size is _M and dtype is _M and device is _M and requires_grad is _M and layout is _M and pin_memory is _M:
        return _normal(mean, std, generator=generator)
    if out is None and _py_type(mean) in _tensors and _py_type(std) in _numbers and (generator is None or True) and size is _M and dtype is _M and device is _M and requires_grad is _M and layout is _M and pin_memory is _M:
        return _normal(mean, std, generator=generator)
    if out is None and _py_type(mean) in _numbers and _py_type(std) in _tensors and (generator is None or True) and size is _M and dtype is _M and device is _M and requires_grad is _M and layout is _M and pin_memory is _M:
        return _normal(mean, std, generator=generator)
    if out is None and _py_type(mean) in _numbers and _py_type(std) in _numbers and _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums and (generator is None or True) and (dtype is _M or (dtype is None or _py_type(dtype) is _DType)) and (device is _M or (device is None or True)) and (requires_grad is _M or _py_type(requires_grad) is _py_bool) and (layout is _M or (layout is None or True)) and (pin_memory is _M or _py_type(pin_memory) is _py_bool):
        return _normal(mean, std, size, generator=generator, dtype=None if dtype is _M else dtype, device=None if device is _M else device, requires_grad=False if requires_grad is _M else requires_grad, layout=None if layout is _M else layout, pin_memory=False if pin_memory is _M else pin_memory)
    return _slow(normal, (mean,), _given(('std', std, 1.0), ('size', size, _M), ('generator', generator, None), ('dtype', dtype, _M), ('device', device, _M), ('requires_grad', requires_grad, _M), ('layout', layout, _M), ('pin_memory', pin_memory, _M), ('out', out, None)))

def poisson(input, generator=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (generator is None or True):
                return _poisson(input, generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(poisson, (input,), _given(('generator', generator, None)))

_options_of_rand = 'dtype', 'device', 'requires_grad',

_made_rand = _making_table()

def rand(*sizes, **options):
    if _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list:
        sizes = (_py_tuple(sizes[0]),)
    made = _makings.make_again(_made_rand, sizes, options)
    if made is not _MISSED:
        return made
    given = sizes
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options or _plain_options(options, _options_of_rand)) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if is_plain and not options:
        return _keep('rand', _made_rand, given, options, _rand(*sizes))
    if is_plain and _plain_options(options, _options_of_rand):
        return _keep('rand', _made_rand, given, options, _rand(*sizes, **options))
    return _slow(rand, sizes, options)

def rand_like(input, *, generator=None, dtype=None, device=None, requires_grad=False, layout=_M, memory_format=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (generator is None or True) and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and memory_format is _M and pin_memory is _M:
                return _rand_like(input, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rand_like, (input,), _given(('generator', generator, None), ('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('layout', layout, _M), ('memory_format', memory_format, _M), ('pin_memory', pin_memory, _M)))

_made_randint = _making_table()

def randint(*args, **options):
    made = _makings.make_again(_made_randint, args, options)
    if made is not _MISSED:
        return made
    given = args
    if _overrides or "out" in options:
        return _slow(randint, args, options)
    return _keep('randint', _made_randint, given, options, _randint(*args, **options) if options else _randint(*args))

_options_of_randint_like = 'dtype', 'device', 'requires_grad',
_known_randint_like = _py_set()

def randint_like(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_randint_like:
        return _randint_like(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_randint_like:
        return _randint_like(*args, **options)
    if options and _plain_options(options, _options_of_randint_like) and (*_py_map(_py_type, args),) in _known_randint_like:
        return _randint_like(*args, **options)
    return _slow(randint_like, args, options, _known_randint_like)

_options_of_randn = 'dtype', 'device', 'requires_grad',

_made_randn = _making_table()

def randn(*sizes, **options):
    if _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list:
        sizes = (_py_tuple(sizes[0]),)
    made = _makings.make_again(_made_randn, sizes, options)
    if made is not _MISSED:
        return made
    given = sizes
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options or _plain_options(options, _options_of_randn)) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if is_plain and not options:
        return _keep('randn', _made_randn, given, options, _randn(*sizes))
    if is_plain and _plain_options(options, _options_of_randn):
        return _keep('randn', _made_randn, given, options, _randn(*sizes, **options))
    return _slow(randn, sizes, options)

def randn_like(input, *, generator=None, dtype=None, device=None, requires_grad=False, layout=_M, memory_format=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (generator is None or True) and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and memory_format is _M and pin_memory is _M:
                return _randn_like(input, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(randn_like, (input,), _given(('generator', generator, None), ('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('layout', layout, _M), ('memory_format', memory_format, _M), ('pin_memory', pin_memory, _M)))

_made_randperm = _making_table()

def randperm(n, *, generator=None, dtype=None, device=None, requires_grad=False, out=None, layout=_M, pin_memory=_M):
    given = None
    if generator is None and requires_grad is False and out is None and layout is _M and pin_memory is _M:
        given = n, dtype, device,
        made = _makings.make_again(_made_randperm, given, _no_options)
        if made is not _MISSED:
            return made
    if out is None and _py_type(n) is _py_int and (generator is None or True) and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
        return _keep('randperm', _made_randperm, given, _no_options, _randperm(n, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad))
    return _slow(randperm, (n,), _given(('generator', generator, None), ('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('out', out, None), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

def as_strided_scatter(input, src, size, stride, storage_offset=None):
    if _py_type(input) in _tensors:
        try:
            if _py_type(size) is _Size:
                size = _py_tuple(size)
            if _py_type(stride) is _Size:
                stride = _py_tuple(stride)
            if _py_type(size) is _py_list:
                size = _as_row(size)
            if _py_type(stride) is _py_list:
                stride = _as_row(stride)
            if _py_type(src) in _tensors and _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums and _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums and (storage_offset is None or _py_type(storage_offset) is _py_int):
                return _as_strided_scatter(input, src, size, stride, storage_offset)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(as_strided_scatter, (input, src, size, stride,), _given(('storage_offset', storage_offset, None)))

def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    if _py_type(input) in _tensors:
        try:
            if _py_type(src) in _tensors and _py_type(offset) is _py_int and _py_type(dim1) is _py_int and _py_type(dim2) is _py_int:
                return _door.apply(_op_diagonal_scatter, input, src, offset, dim1, dim2)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(diagonal_scatter, (input, src,), _given(('offset', offset, 0), ('dim1', dim1, 0), ('dim2', dim2, 1)))

def index_copy(input, dim, index, source, *, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(source) in _tensors and axis is _M:
                return _index_copy(input, dim, index, source)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_copy, (input, dim, index, source,), _given(('out', out, None), ('axis', axis, _M)))

def index_fill(input, dim, index, value, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(value) in _operands and axis is _M:
                return _door.apply(_op_index_fill, input, index, value, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_fill, (input, dim, index, value,), _given(('axis', axis, _M)))

def masked_scatter(input, mask, source):
    if _py_type(input) in _tensors:
        try:
            if _py_type(mask) in _tensors and _py_type(source) in _tensors:
                return _door.apply(_op_masked_scatter, input, mask, source)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(masked_scatter, (input, mask, source,), {})

def put(input, index, source, accumulate=False):
    if _py_type(input) in _tensors:
        try:
            if _py_type(index) in _tensors and _py_type(source) in _tensors and _py_type(accumulate) is _py_bool:
                return _put(input, index, source, accumulate)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(put, (input, index, source,), _given(('accumulate', accumulate, False)))

_known_scatter = _py_set()

def scatter(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_scatter:
        return _scatter(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_scatter:
        return _scatter(*args, **options)
    return _slow(scatter, args, options, _known_scatter)

def scatter_reduce(input, dim, index, src, reduce, *, include_self=True, out=None, axis=_M):
    if out is None and (not _overrides or _py_type(input) in _tensors):
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(src) in _tensors and _py_type(reduce) is _py_str and _py_type(include_self) is _py_bool and axis is _M:
                return _scatter_reduce(input, dim, index, src, reduce, include_self=include_self)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(scatter_reduce, (input, dim, index, src, reduce,), _given(('include_self', include_self, True), ('out', out, None), ('axis', axis, _M)))

def select_scatter(input, src, dim, index, *, axis=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(src) in _tensors and _py_type(dim) is _py_int and _py_type(index) is _py_int and axis is _M:
                return _door.apply(_op_select_scatter, input, src, dim, index)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(select_scatter, (input, src, dim, index,), _given(('axis', axis, _M)))

def slice_scatter(input, src, dim=_M, start=None, end=None, step=1, *, out=None, axis=_M):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(src) in _tensors and (dim is _M or _py_type(dim) is _py_int) and (start is None or _py_type(start) is _py_int) and (end is None or _py_type(end) is _py_int) and _py_type(step) is _py_int and axis is _M:
                return _slice_scatter(input, src, 0 if dim is _M else dim, start, end, step)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(slice_scatter, (input, src,), _given(('dim', dim, _M), ('start', start, None), ('end', end, None), ('step', step, 1), ('out', out, None), ('axis', axis, _M)))

def take(input, index, *, out=None):
    if out is None and (_py_type(input) in _tensors):
        try:
            if _py_type(index) in _tensors:
                return _door.apply(_op_take, input, index)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(take, (input, index,), _given(('out', out, None)))

def adjoint(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _adjoint(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(adjoint, (input,), {})

def as_strided(input, size, stride, storage_offset=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(size) is _Size:
                size = _py_tuple(size)
            if _py_type(stride) is _Size:
                stride = _py_tuple(stride)
            if _py_type(size) is _py_list:
                size = _as_row(size)
            if _py_type(stride) is _py_list:
                stride = _as_row(stride)
            if _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums and _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums and (storage_offset is None or _py_type(storage_offset) is _py_int):
                return _as_strided(input, size, stride, storage_offset)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(as_strided, (input, size, stride,), _given(('storage_offset', storage_offset, None)))

def broadcast_to(input, size):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(size) is _Size:
                size = _py_tuple(size)
            if _py_type(size) is _py_list:
                size = _as_row(size)
            if _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums:
                return _broadcast_to(input, size)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(broadcast_to, (input, size,), {})

def chunk(input, chunks, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(chunks) is _py_int and (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _chunk(input, chunks, 0 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(chunk, (input, chunks,), _given(('dim', dim, _M), ('axis', axis, _M)))

def detach(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_detach, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(detach, (input,), {})

def diagonal(input, offset=0, dim1=0, dim2=1):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(offset) is _py_int and _py_type(dim1) is _py_int and _py_type(dim2) is _py_int:
                return _door.apply(_op_diagonal, input, offset, dim1, dim2)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(diagonal, (input,), _given(('offset', offset, 0), ('dim1', dim1, 0), ('dim2', dim2, 1)))

def expand(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _expand(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(expand, (input, *sizes,), options)

def expand_as(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_expand, input, other.shape)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(expand_as, (input, other,), _given(('x2', x2, _M)))

def flatten(input, start_dim=0, end_dim=-1):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(start_dim) is _py_int and _py_type(end_dim) is _py_int:
                return _flatten(input, start_dim, end_dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(flatten, (input,), _given(('start_dim', start_dim, 0), ('end_dim', end_dim, -1)))

def flip(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _flip(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(flip, (input, *sizes,), options)

def movedim(input, source, destination):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(source) is _Size:
                source = _py_tuple(source)
            if _py_type(destination) is _Size:
                destination = _py_tuple(destination)
            if _py_type(source) is _py_list:
                source = _as_row(source)
            if _py_type(destination) is _py_list:
                destination = _as_row(destination)
            if _py_type(source) is _py_int and _py_type(destination) is _py_int:
                return _movedim(input, source, destination)
            if _py_type(source) is _py_tuple and source in _sizes and _py_type(_py_sum(source)) not in _other_sums and _py_type(destination) is _py_tuple and destination in _sizes and _py_type(_py_sum(destination)) not in _other_sums:
                return _movedim(input, source, destination)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(movedim, (input, source, destination,), {})

def narrow(input, dim, start, length, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(start) in _tensors and _py_type(length) is _py_int and axis is _M:
                return _narrow(input, dim, start, length)
            if _py_type(dim) is _py_int and _py_type(start) is _py_int and _py_type(length) is _py_int and axis is _M:
                return _narrow(input, dim, start, length)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(narrow, (input, dim, start, length,), _given(('axis', axis, _M)))

def permute(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _permute(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(permute, (input, *sizes,), options)

def ravel(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _ravel(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ravel, (input,), {})

def repeat(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _repeat(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(repeat, (input, *sizes,), options)

def repeat_interleave(input, repeats, dim=_M, *, output_size=None, axis=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(repeats) in _tensors and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and (output_size is None or _py_type(output_size) is _py_int) and axis is _M:
                return _repeat_interleave(input, repeats, None if dim is _M else dim, output_size=output_size)
            if _py_type(repeats) is _py_int and (dim is _M or (dim is None or _py_type(dim) is _py_int)) and (output_size is None or _py_type(output_size) is _py_int) and axis is _M:
                return _repeat_interleave(input, repeats, None if dim is _M else dim, output_size=output_size)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(repeat_interleave, (input, repeats,), _given(('dim', dim, _M), ('output_size', output_size, None), ('axis', axis, _M)))

def reshape(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _reshape(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(reshape, (input, *sizes,), options)

def reshape_as(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _reshape_as(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(reshape_as, (input, other,), _given(('x2', x2, _M)))

def roll(input, shifts, dims=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(shifts) is _py_list:
                shifts = _as_row(shifts)
            if _py_type(dims) is _py_list:
                dims = _as_row(dims)
            if (_py_type(shifts) is _py_int or _py_type(shifts) is _py_tuple and shifts in _sizes and _py_type(_py_sum(shifts)) not in _other_sums) and (dims is None or (_py_type(dims) is _py_int or _py_type(dims) is _py_tuple and dims in _sizes and _py_type(_py_sum(dims)) not in _other_sums)):
                return _roll(input, shifts, dims)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(roll, (input, shifts,), _given(('dims', dims, None)))

def select(input, dim, index, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(index) is _py_int and axis is _M:
                return _door.apply(_op_select, input, dim, index)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(select, (input, dim, index,), _given(('axis', axis, _M)))

def split(tensor, split_size_or_sections, dim=_M, *, axis=_M):
    if not _overrides or _py_type(tensor) in _tensors:
        try:
            if (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _split(tensor, split_size_or_sections, 0 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(tensor, _TensorBase):
                raise
    return _slow(split, (tensor, split_size_or_sections,), _given(('dim', dim, _M), ('axis', axis, _M)))

def squeeze(input, dim=_M, *dims, axis=_M):
    if dims:
        return _slow(squeeze, (input, (dim, *dims)), {})
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if dim is _M and axis is _M:
                return _squeeze(input)
            if (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums) and axis is _M:
                return _squeeze(input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(squeeze, (input,), _given(('dim', dim, _M), ('axis', axis, _M)))

def swapaxes(input, axis0, axis1):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(axis0) is _py_int and _py_type(axis1) is _py_int:
                return _door.apply(_op_transpose, input, axis0, axis1)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(swapaxes, (input, axis0, axis1,), {})

def transpose(input, dim0, dim1):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim0) is _py_int and _py_type(dim1) is _py_int:
                return _door.apply(_op_transpose, input, dim0, dim1)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(transpose, (input, dim0, dim1,), {})

def t(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_t, input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(t, (input,), {})

_known_tensor_split = _py_set()

def tensor_split(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_tensor_split:
        return _tensor_split(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_tensor_split:
        return _tensor_split(*args, **options)
    return _slow(tensor_split, args, options, _known_tensor_split)

def tile(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _tile(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tile, (input, *sizes,), options)

def unbind(input, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _unbind(input, 0 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unbind, (input,), _given(('dim', dim, _M), ('axis', axis, _M)))

def unflatten(input, dim, sizes, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and axis is _M:
                return _unflatten(input, dim, sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unflatten, (input, dim, sizes,), _given(('axis', axis, _M)))

def unfold(input, dimension, size, step):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dimension) is _py_int and _py_type(size) is _py_int and _py_type(step) is _py_int:
                return _door.apply(_op_unfold, input, dimension, size, step)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unfold, (input, dimension, size, step,), {})

def unsafe_chunk(input, chunks, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(chunks) is _py_int and (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _unsafe_chunk(input, chunks, 0 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unsafe_chunk, (input, chunks,), _given(('dim', dim, _M), ('axis', axis, _M)))

def unsafe_split(input, split_size, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(split_size) is _py_int and (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _door.apply(_op_unsafe_split, input, split_size, 0 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unsafe_split, (input, split_size,), _given(('dim', dim, _M), ('axis', axis, _M)))

def unsqueeze(input, dim, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and axis is _M:
                return _door.apply(_op_unsqueeze, input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unsqueeze, (input, dim,), _given(('axis', axis, _M)))

def view(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _view(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(view, (input, *sizes,), options)

def view_as(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _door.apply(_op_view, input, other.shape)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(view_as, (input, other,), _given(('x2', x2, _M)))

def clone(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _clone(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(clone, (input,), _given(('memory_format', memory_format, None)))

def contiguous(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _contiguous(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(contiguous, (input,), _given(('memory_format', memory_format, None)))

def split_method(input, split_size, dim=_M, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (dim is _M or _py_type(dim) is _py_int) and axis is _M:
                return _split_method(input, split_size, 0 if dim is _M else dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(split_method, (input, split_size,), _given(('dim', dim, _M), ('axis', axis, _M)))

_options_of_new_zeros = 'dtype', 'device', 'requires_grad',

def new_zeros(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options or _plain_options(options, _options_of_new_zeros)) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _new_zeros(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    if (not _overrides or _py_type(input) in _tensors) and is_plain and _plain_options(options, _options_of_new_zeros):
        try:
            return _new_zeros(input, *sizes, **options)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(new_zeros, (input, *sizes,), options)

_options_of_new_ones = 'dtype', 'device', 'requires_grad',

def new_ones(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options or _plain_options(options, _options_of_new_ones)) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _new_ones(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    if (not _overrides or _py_type(input) in _tensors) and is_plain and _plain_options(options, _options_of_new_ones):
        try:
            return _new_ones(input, *sizes, **options)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(new_ones, (input, *sizes,), options)

def new_full(input, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(size) is _Size:
                size = _py_tuple(size)
            if _py_type(size) is _py_list:
                size = _as_row(size)
            if _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums and _py_type(fill_value) in _numbers and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
                return _new_full(input, size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(new_full, (input, size, fill_value,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

def new_empty_strided(input, size, stride, *, dtype=None, device=None, requires_grad=False, layout=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(size) is _Size:
                size = _py_tuple(size)
            if _py_type(stride) is _Size:
                stride = _py_tuple(stride)
            if _py_type(size) is _py_list:
                size = _as_row(size)
            if _py_type(stride) is _py_list:
                stride = _as_row(stride)
            if _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums and _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums and (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
                return _new_empty_strided(input, size, stride, dtype=dtype, device=device, requires_grad=requires_grad)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(new_empty_strided, (input, size, stride,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

def cpu(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _cpu(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cpu, (input,), {})

def get_device(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _get_device(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(get_device, (input,), {})

def is_contiguous(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _is_contiguous(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(is_contiguous, (input,), _given(('memory_format', memory_format, None)))

def storage(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _storage(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(storage, (input,), {})

def untyped_storage(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _untyped_storage(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(untyped_storage, (input,), {})

def record_stream(input, stream):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _record_stream(input, stream)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(record_stream, (input, stream,), {})

def type_as(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _type_as(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(type_as, (input, other,), _given(('x2', x2, _M)))

def vcpu(input, device=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (device is None or True):
                return _vcpu(input, device)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(vcpu, (input,), _given(('device', device, None)))

def detach_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _detach_(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(detach_, (input,), {})

def set_(input, source=None, storage_offset=None, size=None, stride=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(size) is _Size:
                size = _py_tuple(size)
            if _py_type(stride) is _Size:
                stride = _py_tuple(stride)
            if _py_type(size) is _py_list:
                size = _as_row(size)
            if _py_type(stride) is _py_list:
                stride = _as_row(stride)
            if (source is None or True) and (storage_offset is None or _py_type(storage_offset) is _py_int) and (size is None or _py_type(size) is _py_tuple and size in _sizes and _py_type(_py_sum(size)) not in _other_sums) and (stride is None or _py_type(stride) is _py_tuple and stride in _sizes and _py_type(_py_sum(stride)) not in _other_sums):
                return _set_(input, source, storage_offset, size, stride)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(set_, (input,), _given(('source', source, None), ('storage_offset', storage_offset, None), ('size', size, None), ('stride', stride, None)))

def resize_(input, *sizes, **options):
    try:
        is_plain = sizes in _sizes and _py_type(_py_sum(sizes)) not in _other_sums and _py_len(sizes) > 0
    except TypeError:
        is_plain = False
    if not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) in _rows and (sizes[0] or not options) and _py_tuple(sizes[0]) in _sizes and _py_type(_py_sum(sizes[0])) not in _other_sums:
        sizes, is_plain = _py_tuple(sizes[0]), True
    elif not is_plain and _py_len(sizes) == 1 and _py_type(sizes[0]) is _py_list and sizes[0]:
        row = _as_row(sizes[0])
        if row is not sizes[0]:
            sizes, is_plain = row, True
    if (not _overrides or _py_type(input) in _tensors) and is_plain and not options:
        try:
            return _resize_(input, *sizes)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(resize_, (input, *sizes,), options)

def bfloat16(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _bfloat16(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bfloat16, (input,), _given(('memory_format', memory_format, None)))

def bool(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _bool(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bool, (input,), _given(('memory_format', memory_format, None)))

def byte(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _byte(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(byte, (input,), _given(('memory_format', memory_format, None)))

def cdouble(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _cdouble(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cdouble, (input,), _given(('memory_format', memory_format, None)))

def cfloat(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _cfloat(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cfloat, (input,), _given(('memory_format', memory_format, None)))

def char(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _char(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(char, (input,), _given(('memory_format', memory_format, None)))

def half(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _half(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(half, (input,), _given(('memory_format', memory_format, None)))

def int(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _int(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(int, (input,), _given(('memory_format', memory_format, None)))

def long(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _long(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(long, (input,), _given(('memory_format', memory_format, None)))

def short(input, *, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (memory_format is None or True):
                return _short(input, memory_format=memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(short, (input,), _given(('memory_format', memory_format, None)))

def cuda(input, device=None, non_blocking=False, memory_format=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (device is None or True) and _py_type(non_blocking) is _py_bool and (memory_format is None or True):
                return _cuda(input, device, non_blocking, memory_format)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cuda, (input,), _given(('device', device, None), ('non_blocking', non_blocking, False), ('memory_format', memory_format, None)))

def new_tensor(input, data, *, dtype=None, device=None, requires_grad=False, layout=_M, pin_memory=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (dtype is None or _py_type(dtype) is _DType) and (device is None or True) and _py_type(requires_grad) is _py_bool and layout is _M and pin_memory is _M:
                return _new_tensor(input, data, dtype=dtype, device=device, requires_grad=requires_grad)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(new_tensor, (input, data,), _given(('dtype', dtype, None), ('device', device, None), ('requires_grad', requires_grad, False), ('layout', layout, _M), ('pin_memory', pin_memory, _M)))

def polygamma_method(self, n):
    if not _overrides or _py_type(self) in _tensors:
        try:
            if _py_type(n) is _py_int:
                return _polygamma_method(self, n)
        except AttributeError:
            if _py_isinstance(self, _TensorBase):
                raise
    return _slow(polygamma_method, (self, n,), {})

def where_method(self, condition, other, *, x2=_M):
    if _py_type(self) in _tensors:
        try:
            if _py_type(condition) in _tensors and _py_type(other) in _operands and x2 is _M:
                return _door.apply(_op_where, condition, self, other)
        except AttributeError:
            if _py_isinstance(self, _TensorBase):
                raise
    return _slow(where_method, (self, condition, other,), _given(('x2', x2, _M)))

def abs_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_abs, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(abs_, (input,), {})

def acos_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_acos, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(acos_, (input,), {})

def asin_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_asin, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(asin_, (input,), {})

def atan_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_atan, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(atan_, (input,), {})

def ceil_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_ceil, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ceil_, (input,), {})

def cos_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_cos, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cos_, (input,), {})

def cosh_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_cosh, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cosh_, (input,), {})

def exp_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_exp, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(exp_, (input,), {})

def exp2_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_exp2, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(exp2_, (input,), {})

def expm1_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_expm1, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(expm1_, (input,), {})

def erf_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_erf, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(erf_, (input,), {})

def floor_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_floor, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(floor_, (input,), {})

def log_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_log, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log_, (input,), {})

def log10_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_log10, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log10_, (input,), {})

def log1p_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_log1p, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log1p_, (input,), {})

def log2_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_log2, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log2_, (input,), {})

def neg_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_neg, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(neg_, (input,), {})

def reciprocal_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_reciprocal, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(reciprocal_, (input,), {})

def relu_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_relu, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(relu_, (input,), {})

def rsqrt_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_rsqrt, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rsqrt_, (input,), {})

def sigmoid_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_sigmoid, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sigmoid_, (input,), {})

def sign_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_sign, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sign_, (input,), {})

def sin_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_sin, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sin_, (input,), {})

def sinh_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_sinh, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sinh_, (input,), {})

def sqrt_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_sqrt, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sqrt_, (input,), {})

def tan_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_tan, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tan_, (input,), {})

def tanh_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_tanh, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tanh_, (input,), {})

def trunc_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_trunc, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(trunc_, (input,), {})

def bitwise_not_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_bitwise_not, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bitwise_not_, (input,), {})

def logical_not_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_logical_not, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_not_, (input,), {})

def lgamma_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_lgamma, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lgamma_, (input,), {})

def digamma_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_digamma, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(digamma_, (input,), {})

def erfinv_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_erfinv, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(erfinv_, (input,), {})

def asinh_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_asinh, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(asinh_, (input,), {})

def acosh_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_acosh, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(acosh_, (input,), {})

def atanh_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_atanh, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(atanh_, (input,), {})

def erfc_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_erfc, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(erfc_, (input,), {})

def sinc_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_sinc, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sinc_, (input,), {})

def rad2deg_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_rad2deg, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rad2deg_, (input,), {})

def deg2rad_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_deg2rad, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(deg2rad_, (input,), {})

def frac_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_frac, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(frac_, (input,), {})

def sgn_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_sgn, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(sgn_, (input,), {})

def i0_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            _door.apply_inplace(_op_i0, (input,), input)
            return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(i0_, (input,), {})

def mul_(input, other, *, x2=_M):
    if _py_type(input) in _operands and _py_type(other) in _operands and x2 is _M:
        _door.apply_inplace(_op_mul, (input,), input, other)
        return input
    return _slow(mul_, (input, other,), _given(('x2', x2, _M)))

def remainder_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_remainder, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(remainder_, (input, other,), _given(('x2', x2, _M)))

def fmod_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_fmod, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(fmod_, (input, other,), _given(('x2', x2, _M)))

def floor_divide_(input, other, *, x2=_M):
    if _py_type(input) in _operands and _py_type(other) in _operands and x2 is _M:
        _door.apply_inplace(_op_floor_divide, (input,), input, other)
        return input
    return _slow(floor_divide_, (input, other,), _given(('x2', x2, _M)))

def atan2_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                _door.apply_inplace(_op_atan2, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(atan2_, (input, other,), _given(('x2', x2, _M)))

def logical_and_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                _door.apply_inplace(_op_logical_and, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_and_, (input, other,), _given(('x2', x2, _M)))

def logical_or_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                _door.apply_inplace(_op_logical_or, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_or_, (input, other,), _given(('x2', x2, _M)))

def logical_xor_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                _door.apply_inplace(_op_logical_xor, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logical_xor_, (input, other,), _given(('x2', x2, _M)))

def copysign_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _copysign_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(copysign_, (input, other,), _given(('x2', x2, _M)))

def hypot_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _hypot_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(hypot_, (input, other,), _given(('x2', x2, _M)))

def heaviside_(input, values):
    if _py_type(input) in _tensors:
        try:
            if _py_type(values) in _tensors:
                return _heaviside_(input, values)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(heaviside_, (input, values,), {})

def nextafter_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _nextafter_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nextafter_, (input, other,), _given(('x2', x2, _M)))

def ldexp_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _ldexp_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ldexp_, (input, other,), _given(('x2', x2, _M)))

def xlogy_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _xlogy_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(xlogy_, (input, other,), _given(('x2', x2, _M)))

def bitwise_and_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _bitwise_and_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bitwise_and_, (input, other,), _given(('x2', x2, _M)))

def bitwise_or_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _bitwise_or_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bitwise_or_, (input, other,), _given(('x2', x2, _M)))

def bitwise_xor_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _bitwise_xor_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bitwise_xor_, (input, other,), _given(('x2', x2, _M)))

def bitwise_left_shift_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _bitwise_left_shift_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bitwise_left_shift_, (input, other,), _given(('x2', x2, _M)))

def bitwise_right_shift_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                return _bitwise_right_shift_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bitwise_right_shift_, (input, other,), _given(('x2', x2, _M)))

def gcd_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _gcd_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(gcd_, (input, other,), _given(('x2', x2, _M)))

def lcm_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _tensors and x2 is _M:
                return _lcm_(input, other)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lcm_, (input, other,), _given(('x2', x2, _M)))

def eq_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_eq_as_self, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(eq_, (input, other,), _given(('x2', x2, _M)))

def ne_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_ne_as_self, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ne_, (input, other,), _given(('x2', x2, _M)))

def lt_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_lt_as_self, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lt_, (input, other,), _given(('x2', x2, _M)))

def le_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_le_as_self, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(le_, (input, other,), _given(('x2', x2, _M)))

def gt_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_gt_as_self, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(gt_, (input, other,), _given(('x2', x2, _M)))

def ge_(input, other, *, x2=_M):
    if _py_type(input) in _tensors:
        try:
            if _py_type(other) in _operands and x2 is _M:
                _door.apply_inplace(_op_ge_as_self, (input,), input, other)
                return input
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(ge_, (input, other,), _given(('x2', x2, _M)))

def cumsum_(input, dim, *, dtype=None, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and (dtype is None or _py_type(dtype) is _DType) and axis is _M:
                return _cumsum_(input, dim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cumsum_, (input, dim,), _given(('dtype', dtype, None), ('axis', axis, _M)))

def cumprod_(input, dim, *, dtype=None, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and (dtype is None or _py_type(dtype) is _DType) and axis is _M:
                return _cumprod_(input, dim, dtype=dtype)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cumprod_, (input, dim,), _given(('dtype', dtype, None), ('axis', axis, _M)))

def add_(input, other, *_old, alpha=1, x2=_M):
    if _py_type(input) in _operands and _py_type(other) in _operands and _py_type(alpha) in _numbers and x2 is _M and not _old:
        return _add_(input, other, alpha=alpha)
    return _slow(add_, (input, other, *_old), _given(('alpha', alpha, 1), ('x2', x2, _M)))

def sub_(input, other, *_old, alpha=1, x2=_M):
    if _py_type(input) in _operands and _py_type(other) in _operands and _py_type(alpha) in _numbers and x2 is _M and not _old:
        return _sub_(input, other, alpha=alpha)
    return _slow(sub_, (input, other, *_old), _given(('alpha', alpha, 1), ('x2', x2, _M)))

def div_(input, other, *, rounding_mode=_M, x2=_M):
    if _py_type(input) in _operands and _py_type(other) in _operands and rounding_mode is _M and x2 is _M:
        return _div_(input, other)
    if _py_type(input) in _operands and _py_type(other) in _operands and (rounding_mode is None or _py_type(rounding_mode) is _py_str) and x2 is _M:
        return _div_(input, other, rounding_mode=rounding_mode)
    return _slow(div_, (input, other,), _given(('rounding_mode', rounding_mode, _M), ('x2', x2, _M)))

def pow_(input, exponent):
    if _py_type(input) in _tensors:
        try:
            if _py_type(exponent) in _operands:
                return _pow_(input, exponent)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(pow_, (input, exponent,), {})

def float_power_(input, exponent):
    if _py_type(input) in _tensors:
        try:
            if _py_type(exponent) in _operands:
                return _float_power_(input, exponent)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(float_power_, (input, exponent,), {})

def square_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _square_(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(square_, (input,), {})

def clamp_(input, min=None, max=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (min is None or _py_type(min) in _tensors) and (max is None or _py_type(max) in _tensors):
                return _clamp_(input, min, max)
            if (min is None or _py_type(min) in _numbers) and (max is None or _py_type(max) in _numbers):
                return _clamp_(input, min, max)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(clamp_, (input,), _given(('min', min, None), ('max', max, None)))

def clamp_min_(input, min):
    if _py_type(input) in _tensors:
        try:
            if _py_type(min) in _operands:
                return _clamp_min_(input, min)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(clamp_min_, (input, min,), {})

def clamp_max_(input, max):
    if _py_type(input) in _tensors:
        try:
            if _py_type(max) in _operands:
                return _clamp_max_(input, max)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(clamp_max_, (input, max,), {})

def lerp_(input, end, weight):
    if _py_type(input) in _tensors:
        try:
            if _py_type(end) in _tensors and _py_type(weight) in _operands:
                return _lerp_(input, end, weight)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(lerp_, (input, end, weight,), {})

def round_(input, *, decimals=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if decimals is _M:
                return _round_(input)
            if _py_type(decimals) is _py_int:
                return _round_(input, decimals=decimals)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(round_, (input,), _given(('decimals', decimals, _M)))

def addcmul_(input, tensor1, tensor2, *_old, value=1):
    if _py_type(input) in _tensors:
        try:
            if _py_type(tensor1) in _tensors and _py_type(tensor2) in _tensors and _py_type(value) in _numbers and not _old:
                return _addcmul_(input, tensor1, tensor2, value=value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addcmul_, (input, tensor1, tensor2, *_old), _given(('value', value, 1)))

def addcdiv_(input, tensor1, tensor2, *_old, value=1):
    if _py_type(input) in _tensors:
        try:
            if _py_type(tensor1) in _tensors and _py_type(tensor2) in _tensors and _py_type(value) in _numbers and not _old:
                return _addcdiv_(input, tensor1, tensor2, value=value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addcdiv_, (input, tensor1, tensor2, *_old), _given(('value', value, 1)))

def addmm_(input, mat1, mat2, *_old, beta=1, alpha=1):
    if _py_type(input) in _tensors:
        try:
            if _py_type(mat1) in _tensors and _py_type(mat2) in _tensors and _py_type(beta) in _numbers and _py_type(alpha) in _numbers and not _old:
                return _addmm_(input, mat1, mat2, beta=beta, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(addmm_, (input, mat1, mat2, *_old), _given(('beta', beta, 1), ('alpha', alpha, 1)))

def fill_diagonal_(input, fill_value, wrap=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(fill_value) in _numbers and _py_type(wrap) is _py_bool:
                return _fill_diagonal_(input, fill_value, wrap)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(fill_diagonal_, (input, fill_value,), _given(('wrap', wrap, False)))

def logit_(input, eps=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (eps is None or _py_type(eps) in _numbers):
                return _logit_(input, eps)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(logit_, (input,), _given(('eps', eps, None)))

def nan_to_num_(input, nan=None, posinf=None, neginf=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if (nan is None or _py_type(nan) in _numbers) and (posinf is None or _py_type(posinf) in _numbers) and (neginf is None or _py_type(neginf) in _numbers):
                return _nan_to_num_(input, nan, posinf, neginf)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(nan_to_num_, (input,), _given(('nan', nan, None), ('posinf', posinf, None), ('neginf', neginf, None)))

def polygamma_(input, n):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(n) is _py_int:
                return _polygamma_(input, n)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(polygamma_, (input, n,), {})

_known_copy_ = _py_set()

def copy_(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_copy_:
        return _copy_(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_copy_:
        return _copy_(*args, **options)
    return _slow(copy_, args, options, _known_copy_)

def fill_(input, value):
    if _py_type(input) in _tensors:
        try:
            if _py_type(value) in _operands:
                return _fill_(input, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(fill_, (input, value,), {})

def zero_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _zero_(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(zero_, (input,), {})

_known_uniform_ = _py_set()

def uniform_(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_uniform_:
        return _uniform_(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_uniform_:
        return _uniform_(*args, **options)
    return _slow(uniform_, args, options, _known_uniform_)

def normal_(input, mean=0.0, std=1.0, *, generator=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(mean) in _numbers and _py_type(std) in _numbers and (generator is None or True):
                return _normal_(input, mean, std, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(normal_, (input,), _given(('mean', mean, 0.0), ('std', std, 1.0), ('generator', generator, None)))

def bernoulli_(input, p=0.5, *, generator=None):
    if _py_type(input) in _tensors:
        try:
            if _py_type(p) in _tensors and (generator is None or True):
                return _bernoulli_(input, p, generator=generator)
            if _py_type(p) in _numbers and (generator is None or True):
                return _bernoulli_(input, p, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(bernoulli_, (input,), _given(('p', p, 0.5), ('generator', generator, None)))

_known_random_ = _py_set()

def random_(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_random_:
        return _random_(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_random_:
        return _random_(*args, **options)
    return _slow(random_, args, options, _known_random_)

def exponential_(input, lambd=1.0, *, generator=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(lambd) in _numbers and (generator is None or True):
                return _exponential_(input, lambd, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(exponential_, (input,), _given(('lambd', lambd, 1.0), ('generator', generator, None)))

def geometric_(input, p, *, generator=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(p) in _numbers and (generator is None or True):
                return _geometric_(input, p, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(geometric_, (input, p,), _given(('generator', generator, None)))

def cauchy_(input, median=0.0, sigma=1.0, *, generator=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(median) in _numbers and _py_type(sigma) in _numbers and (generator is None or True):
                return _cauchy_(input, median, sigma, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(cauchy_, (input,), _given(('median', median, 0.0), ('sigma', sigma, 1.0), ('generator', generator, None)))

def log_normal_(input, mean=1.0, std=2.0, *, generator=None):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(mean) in _numbers and _py_type(std) in _numbers and (generator is None or True):
                return _log_normal_(input, mean, std, generator=generator)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(log_normal_, (input,), _given(('mean', mean, 1.0), ('std', std, 2.0), ('generator', generator, None)))

def masked_fill_(input, mask, value):
    if _py_type(input) in _tensors:
        try:
            if _py_type(mask) in _tensors and _py_type(value) in _operands:
                return _masked_fill_(input, mask, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(masked_fill_, (input, mask, value,), {})

def scatter_add_(input, dim, index, src, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(src) in _tensors and axis is _M:
                return _scatter_add_(input, dim, index, src)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(scatter_add_, (input, dim, index, src,), _given(('axis', axis, _M)))

def index_add_(input, dim, index, source, *, alpha=1, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(source) in _tensors and _py_type(alpha) in _numbers and axis is _M:
                return _index_add_(input, dim, index, source, alpha=alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_add_, (input, dim, index, source,), _given(('alpha', alpha, 1), ('axis', axis, _M)))

def index_put_(input, indices, values, accumulate=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(indices) in _lists and _tensors.issuperset(_py_map(_py_type, indices)) and _py_type(values) in _tensors and _py_type(accumulate) is _py_bool:
                return _index_put_(input, indices, values, accumulate)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_put_, (input, indices, values,), _given(('accumulate', accumulate, False)))

def tril_(input, diagonal=0):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(diagonal) is _py_int:
                return _tril_(input, diagonal)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(tril_, (input,), _given(('diagonal', diagonal, 0)))

def triu_(input, diagonal=0):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(diagonal) is _py_int:
                return _triu_(input, diagonal)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(triu_, (input,), _given(('diagonal', diagonal, 0)))

_known_scatter_ = _py_set()

def scatter_(*args, **options):
    if not options and (*_py_map(_py_type, args),) in _known_scatter_:
        return _scatter_(*args)
    if options and (*_py_map(_py_type, args), *options, *_py_map(_py_type, options.values())) in _known_scatter_:
        return _scatter_(*args, **options)
    return _slow(scatter_, args, options, _known_scatter_)

def scatter_reduce_(input, dim, index, src, reduce, *, include_self=True, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(src) in _tensors and _py_type(reduce) is _py_str and _py_type(include_self) is _py_bool and axis is _M:
                return _scatter_reduce_(input, dim, index, src, reduce, include_self=include_self)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(scatter_reduce_, (input, dim, index, src, reduce,), _given(('include_self', include_self, True), ('axis', axis, _M)))

def index_copy_(input, dim, index, source, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(source) in _tensors and axis is _M:
                return _index_copy_(input, dim, index, source)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_copy_, (input, dim, index, source,), _given(('axis', axis, _M)))

def index_fill_(input, dim, index, value, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and _py_type(index) in _tensors and _py_type(value) in _operands and axis is _M:
                return _index_fill_(input, dim, index, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(index_fill_, (input, dim, index, value,), _given(('axis', axis, _M)))

def masked_scatter_(input, mask, source):
    if _py_type(input) in _tensors:
        try:
            if _py_type(mask) in _tensors and _py_type(source) in _tensors:
                return _masked_scatter_(input, mask, source)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(masked_scatter_, (input, mask, source,), {})

def put_(input, index, source, accumulate=False):
    if _py_type(input) in _tensors:
        try:
            if _py_type(index) in _tensors and _py_type(source) in _tensors and _py_type(accumulate) is _py_bool:
                return _put_(input, index, source, accumulate)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(put_, (input, index, source,), _given(('accumulate', accumulate, False)))

def transpose_(input, dim0, dim1):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim0) is _py_int and _py_type(dim1) is _py_int:
                return _transpose_(input, dim0, dim1)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(transpose_, (input, dim0, dim1,), {})

def t_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _t_(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(t_, (input,), {})

def squeeze_(input, dim=_M, *dims, axis=_M):
    if dims:
        return _slow(squeeze_, (input, (dim, *dims)), {})
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_list:
                dim = _as_row(dim)
            if dim is _M and axis is _M:
                return _squeeze_(input)
            if (_py_type(dim) is _py_int or _py_type(dim) is _py_tuple and dim in _sizes and _py_type(_py_sum(dim)) not in _other_sums) and axis is _M:
                return _squeeze_(input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(squeeze_, (input,), _given(('dim', dim, _M), ('axis', axis, _M)))

def unsqueeze_(input, dim, *, axis=_M):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(dim) is _py_int and axis is _M:
                return _unsqueeze_(input, dim)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(unsqueeze_, (input, dim,), _given(('axis', axis, _M)))

def swapaxes_(input, axis0, axis1):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(axis0) is _py_int and _py_type(axis1) is _py_int:
                return _swapaxes_(input, axis0, axis1)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(swapaxes_, (input, axis0, axis1,), {})

def functional_relu(input, inplace=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _door.apply(_op_relu, input) if not inplace else input.relu_()
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(functional_relu, (input,), _given(('inplace', inplace, False)))

def elu_(input, alpha=1.0):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(alpha) in _numbers:
                return _elu_(input, alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(elu_, (input,), _given(('alpha', alpha, 1.0)))

def celu_(input, alpha=1.0):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(alpha) in _numbers:
                return _celu_(input, alpha)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(celu_, (input,), _given(('alpha', alpha, 1.0)))

def selu_(input):
    if not _overrides or _py_type(input) in _tensors:
        try:
            return _selu_(input)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(selu_, (input,), {})

def hardtanh_(input, min_val=-1.0, max_val=1.0):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(min_val) in _numbers and _py_type(max_val) in _numbers:
                return _hardtanh_(input, min_val, max_val)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(hardtanh_, (input,), _given(('min_val', min_val, -1.0), ('max_val', max_val, 1.0)))

def leaky_relu_(input, negative_slope=0.01):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(negative_slope) in _numbers:
                return _leaky_relu_(input, negative_slope)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(leaky_relu_, (input,), _given(('negative_slope', negative_slope, 0.01)))

def threshold_(input, threshold, value):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(threshold) in _numbers and _py_type(value) in _numbers:
                return _threshold_(input, threshold, value)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(threshold_, (input, threshold, value,), {})

def rrelu_(input, lower=0.125, upper=0.3333333333333333, training=False):
    if not _overrides or _py_type(input) in _tensors:
        try:
            if _py_type(lower) in _numbers and _py_type(upper) in _numbers and _py_type(training) is _py_bool:
                return _rrelu_(input, lower, upper, training)
        except AttributeError:
            if _py_isinstance(input, _TensorBase):
                raise
    return _slow(rrelu_, (input,), _given(('lower', lower, 0.125), ('upper', upper, 0.3333333333333333), ('training', training, False)))

PUBLIC = {
    'celu': celu, 'elu': elu, 'gelu': gelu, 'glu': glu, 'hardshrink': hardshrink, 'hardsigmoid': hardsigmoid,
    'hardswish': hardswish, 'hardtanh': hardtanh, 'leaky_relu': leaky_relu, 'logsigmoid': logsigmoid, 'mish': mish,
    'prelu': prelu, 'relu6': relu6, 'selu': selu, 'silu': silu, 'softmin': softmin, 'softplus': softplus,
    'softshrink': softshrink, 'softsign': softsign, 'tanhshrink': tanhshrink, 'threshold': threshold, 'arange': arange,
    'empty': empty, 'empty_like': zeros_like, 'empty_strided': empty_strided, 'eye': eye, 'full': full,
    'full_like': full_like, 'linspace': linspace, 'ones': ones, 'ones_like': ones_like, 'zeros': zeros,
    'zeros_like': zeros_like, 'alpha_dropout': alpha_dropout, 'dropout': dropout, 'dropout1d': dropout1d,
    'dropout2d': dropout2d, 'dropout3d': dropout3d, 'feature_alpha_dropout': feature_alpha_dropout,
    'gumbel_softmax': gumbel_softmax, 'rrelu': rrelu, 'einsum': einsum, 'as_tensor': _bare.PUBLIC['as_tensor'],
    'from_numpy': _bare.PUBLIC['from_numpy'], 'tensor': _bare.PUBLIC['tensor'], 'argwhere': argwhere, 'gather': gather,
    'index_add': index_add, 'index_put': index_put, 'index_select': index_select, 'masked_fill': masked_fill,
    'masked_select': masked_select, 'nonzero': nonzero, 'scatter_add': scatter_add, 'take_along_dim': take_along_dim,
    'tril': tril, 'triu': triu, 'atleast_1d': atleast_1d, 'atleast_2d': atleast_2d, 'atleast_3d': atleast_3d,
    'block_diag': block_diag, 'broadcast_shapes': broadcast_shapes, 'broadcast_tensors': broadcast_tensors,
    'cartesian_prod': cartesian_prod, 'cat': cat, 'column_stack': column_stack, 'combinations': combinations,
    'concat': cat, 'concatenate': cat, 'diag': diag, 'diag_embed': diag_embed, 'diagflat': diagflat, 'dsplit': dsplit,
    'dstack': dstack, 'fliplr': fliplr, 'flipud': flipud, 'hsplit': hsplit, 'hstack': hstack, 'kron': kron,
    'meshgrid': meshgrid, 'pad': pad, 'rot90': rot90, 'row_stack': vstack, 'split_with_sizes': split_with_sizes,
    'stack': stack, 'sum_to_size': sum_to_size, 'vsplit': vsplit, 'vstack': vstack, 'avg_pool2d': avg_pool2d,
    'batch_norm': batch_norm, 'conv2d': conv2d, 'embedding': embedding, 'layer_norm': layer_norm,
    'max_pool2d': max_pool2d, 'normalize': normalize, 'one_hot': one_hot, 'rms_norm': rms_norm,
    'scaled_dot_product_attention': scaled_dot_product_attention, 'addbmm': addbmm, 'addmm': addmm, 'addmv': addmv,
    'addr': addr, 'baddbmm': baddbmm, 'bmm': bmm, 'chain_matmul': chain_matmul, 'cholesky': cholesky,
    'cholesky_inverse': cholesky_inverse, 'cholesky_solve': cholesky_solve, 'cross': cross, 'det': det, 'dist': dist,
    'dot': dot, 'ger': outer, 'inner': inner, 'inverse': inverse, 'linear': linear, 'logdet': logdet,
    'lu_solve': lu_solve, 'lu_unpack': lu_unpack, 'matmul': matmul, 'matrix_exp': matrix_exp,
    'matrix_power': matrix_power, 'mm': mm, 'mv': mv, 'outer': outer, 'pinverse': pinverse, 'qr': qr,
    'slogdet': slogdet, 'svd': svd, 'trace': trace, 'triangular_solve': triangular_solve, 'vdot': vdot,
    'binary_cross_entropy': binary_cross_entropy, 'binary_cross_entropy_with_logits': binary_cross_entropy_with_logits,
    'cross_entropy': cross_entropy, 'huber_loss': huber_loss, 'kl_div': kl_div, 'l1_loss': l1_loss,
    'mse_loss': mse_loss, 'nll_loss': nll_loss, 'smooth_l1_loss': smooth_l1_loss, 'argsort': argsort,
    'bincount': bincount, 'bucketize': bucketize, 'histc': histc, 'histogram': histogram, 'isin': isin,
    'kthvalue': kthvalue, 'median': median, 'mode': mode, 'msort': msort, 'nanmedian': nanmedian,
    'nanquantile': nanquantile, 'quantile': quantile, 'searchsorted': searchsorted, 'sort': sort, 'topk': topk,
    'unique': unique, 'unique_consecutive': unique_consecutive, 'abs': abs, 'absolute': abs, 'acos': acos,
    'acosh': acosh, 'add': add, 'addcdiv': addcdiv, 'addcmul': addcmul, 'arccos': acos, 'arccosh': acosh,
    'arcsin': asin, 'arcsinh': asinh, 'arctan': atan, 'arctan2': atan2, 'arctanh': atanh, 'asin': asin, 'asinh': asinh,
    'atan': atan, 'atan2': atan2, 'atanh': atanh, 'bitwise_and': bitwise_and, 'bitwise_left_shift': bitwise_left_shift,
    'bitwise_not': bitwise_not, 'bitwise_or': bitwise_or, 'bitwise_right_shift': bitwise_right_shift,
    'bitwise_xor': bitwise_xor, 'ceil': ceil, 'clamp': clamp, 'clamp_max': clamp_max, 'clamp_min': clamp_min,
    'clip': clamp, 'copysign': copysign, 'cos': cos, 'cosh': cosh, 'deg2rad': deg2rad, 'digamma': digamma, 'div': div,
    'divide': div, 'eq': eq, 'erf': erf, 'erfc': erfc, 'erfinv': erfinv, 'exp': exp, 'exp2': exp2, 'expm1': expm1,
    'fix': trunc, 'float_power': float_power, 'floor': floor, 'floor_divide': floor_divide, 'fmax': fmax, 'fmin': fmin,
    'fmod': fmod, 'frac': frac, 'gcd': gcd, 'ge': ge, 'greater': gt, 'greater_equal': ge, 'gt': gt,
    'heaviside': heaviside, 'hypot': hypot, 'i0': i0, 'isclose': isclose, 'isfinite': isfinite, 'isinf': isinf,
    'isnan': isnan, 'isneginf': isneginf, 'isposinf': isposinf, 'isreal': isreal, 'lcm': lcm, 'ldexp': ldexp, 'le': le,
    'lerp': lerp, 'less': lt, 'less_equal': le, 'lgamma': lgamma, 'log': log, 'log1p': log1p, 'log2': log2,
    'log10': log10, 'logaddexp': logaddexp, 'logaddexp2': logaddexp2, 'logical_and': logical_and,
    'logical_not': logical_not, 'logical_or': logical_or, 'logical_xor': logical_xor, 'logit': logit, 'lt': lt,
    'maximum': maximum, 'minimum': minimum, 'mul': mul, 'multiply': mul, 'nan_to_num': nan_to_num, 'ne': ne,
    'neg': neg, 'negative': neg, 'nextafter': nextafter, 'not_equal': ne, 'polygamma': polygamma, 'positive': positive,
    'pow': pow, 'rad2deg': rad2deg, 'reciprocal': reciprocal, 'relu': relu, 'remainder': remainder, 'round': round,
    'rsqrt': rsqrt, 'rsub': rsub, 'sgn': sgn, 'sigmoid': sigmoid, 'sign': sign, 'signbit': signbit, 'sin': sin,
    'sinc': sinc, 'sinh': sinh, 'sqrt': sqrt, 'square': square, 'sub': sub, 'subtract': sub, 'tan': tan, 'tanh': tanh,
    'true_divide': div, 'trunc': trunc, 'where': where, 'xlogy': xlogy, 'all': all, 'allclose': allclose, 'amax': amax,
    'amin': amin, 'aminmax': aminmax, 'any': any, 'argmax': argmax, 'argmin': argmin, 'count_nonzero': count_nonzero,
    'cummax': cummax, 'cummin': cummin, 'cumprod': cumprod, 'cumsum': cumsum,
    'cumulative_trapezoid': cumulative_trapezoid, 'diff': diff, 'equal': equal, 'is_complex': is_complex,
    'is_floating_point': is_floating_point, 'is_nonzero': is_nonzero, 'is_same_size': is_same_size,
    'is_signed': is_signed, 'log_softmax': log_softmax, 'logcumsumexp': logcumsumexp, 'logsumexp': logsumexp,
    'max': max, 'mean': mean, 'min': min, 'nanmean': nanmean, 'nansum': nansum, 'norm': norm, 'prod': prod,
    'softmax': softmax, 'std': std, 'sum': sum, 'trapezoid': trapezoid, 'trapz': trapezoid, 'var': var,
    'vector_norm': vector_norm, 'bernoulli': bernoulli, 'multinomial': multinomial, 'normal': normal,
    'poisson': poisson, 'rand': rand, 'rand_like': rand_like, 'randint': randint, 'randint_like': randint_like,
    'randn': randn, 'randn_like': randn_like, 'randperm': randperm, 'as_strided_scatter': as_strided_scatter,
    'diagonal_scatter': diagonal_scatter, 'index_copy': index_copy, 'index_fill': index_fill,
    'masked_scatter': masked_scatter, 'put': put, 'scatter': scatter, 'scatter_reduce': scatter_reduce,
    'select_scatter': select_scatter, 'slice_scatter': slice_scatter, 'take': take, 'adjoint': adjoint,
    'as_strided': as_strided, 'broadcast_to': broadcast_to, 'chunk': chunk, 'detach': detach, 'diagonal': diagonal,
    'expand': expand, 'expand_as': expand_as, 'flatten': flatten, 'flip': flip, 'moveaxis': movedim,
    'movedim': movedim, 'narrow': narrow, 'permute': permute, 'ravel': ravel, 'repeat': repeat,
    'repeat_interleave': repeat_interleave, 'reshape': reshape, 'reshape_as': reshape_as, 'roll': roll,
    'select': select, 'split': split, 'squeeze': squeeze, 'swapaxes': swapaxes, 'swapdims': transpose, 't': t,
    'tensor_split': tensor_split, 'tile': tile, 'transpose': transpose, 'unbind': unbind, 'unflatten': unflatten,
    'unfold': unfold, 'unsafe_chunk': unsafe_chunk, 'unsafe_split': unsafe_split, 'unsqueeze': unsqueeze, 'view': view,
    'view_as': view_as, 'clone': clone, 'contiguous': contiguous,
}

METHODS = {
    'exp': exp, 'exp2': exp2, 'expm1': expm1, 'log': log, 'log1p': log1p, 'log2': log2, 'log10': log10, 'sqrt': sqrt,
    'rsqrt': rsqrt, 'reciprocal': reciprocal, 'sin': sin, 'cos': cos, 'tan': tan, 'asin': asin, 'acos': acos,
    'atan': atan, 'sinh': sinh, 'cosh': cosh, 'tanh': tanh, 'sigmoid': sigmoid, 'erf': erf, 'relu': relu, 'abs': abs,
    'neg': neg, 'sign': sign, 'floor': floor, 'ceil': ceil, 'trunc': trunc, 'round': round, 'isnan': isnan,
    'isinf': isinf, 'isfinite': isfinite, 'logical_not': logical_not, 'bitwise_not': bitwise_not, 'mul': mul,
    'maximum': maximum, 'minimum': minimum, 'remainder': remainder, 'fmod': fmod, 'floor_divide': floor_divide,
    'atan2': atan2, 'logaddexp': logaddexp, 'eq': eq, 'ne': ne, 'lt': lt, 'le': le, 'gt': gt, 'ge': ge,
    'logical_and': logical_and, 'logical_or': logical_or, 'logical_xor': logical_xor, 'bitwise_and': bitwise_and,
    'bitwise_or': bitwise_or, 'bitwise_xor': bitwise_xor, 'add': add, 'sub': sub, 'div': div, 'pow': pow,
    'square': square, 'clamp': clamp, 'clamp_min': clamp_min, 'clamp_max': clamp_max, 'clip': clamp, 'lerp': lerp,
    'addcmul': addcmul, 'addcdiv': addcdiv, 'isclose': isclose, 'absolute': abs, 'negative': neg, 'subtract': sub,
    'multiply': mul, 'divide': div, 'true_divide': div, 'greater': gt, 'greater_equal': ge, 'less': lt,
    'less_equal': le, 'not_equal': ne, 'arccos': acos, 'arcsin': asin, 'arctan': atan, 'arctan2': atan2,
    'lgamma': lgamma, 'digamma': digamma, 'erfinv': erfinv, 'acosh': acosh, 'asinh': asinh, 'atanh': atanh,
    'arccosh': acosh, 'arcsinh': asinh, 'arctanh': atanh, 'erfc': erfc, 'sinc': sinc, 'logit': logit,
    'rad2deg': rad2deg, 'deg2rad': deg2rad, 'frac': frac, 'fix': trunc, 'positive': positive, 'sgn': sgn,
    'signbit': signbit, 'nan_to_num': nan_to_num, 'isposinf': isposinf, 'isneginf': isneginf, 'isreal': isreal,
    'i0': i0, 'copysign': copysign, 'hypot': hypot, 'fmax': fmax, 'fmin': fmin, 'heaviside': heaviside,
    'nextafter': nextafter, 'ldexp': ldexp, 'logaddexp2': logaddexp2, 'xlogy': xlogy, 'float_power': float_power,
    'gcd': gcd, 'lcm': lcm, 'bitwise_left_shift': bitwise_left_shift, 'bitwise_right_shift': bitwise_right_shift,
    'hardshrink': hardshrink, 'prelu': prelu, 'sum': sum, 'mean': mean, 'prod': prod, 'var': var, 'std': std,
    'amax': amax, 'amin': amin, 'max': max, 'min': min, 'argmax': argmax, 'argmin': argmin, 'any': any, 'all': all,
    'count_nonzero': count_nonzero, 'cumsum': cumsum, 'cumprod': cumprod, 'cummax': cummax, 'cummin': cummin,
    'logcumsumexp': logcumsumexp, 'logsumexp': logsumexp, 'softmax': softmax, 'log_softmax': log_softmax, 'norm': norm,
    'aminmax': aminmax, 'diff': diff, 'nanmean': nanmean, 'nansum': nansum, 'allclose': allclose, 'equal': equal,
    'is_complex': is_complex, 'is_floating_point': is_floating_point, 'is_nonzero': is_nonzero,
    'is_same_size': is_same_size, 'is_signed': is_signed, 'reshape': reshape, 'view': view, 'view_as': view_as,
    'reshape_as': reshape_as, 'flatten': flatten, 'unflatten': unflatten, 'ravel': ravel, 'transpose': transpose,
    't': t, 'permute': permute, 'movedim': movedim, 'moveaxis': movedim, 'expand': expand, 'expand_as': expand_as,
    'broadcast_to': broadcast_to, 'squeeze': squeeze, 'unsqueeze': unsqueeze, 'select': select, 'narrow': narrow,
    'unbind': unbind, 'split': split_method, 'chunk': chunk, 'diagonal': diagonal, 'unfold': unfold,
    'as_strided': as_strided, 'detach': detach, 'flip': flip, 'roll': roll, 'adjoint': adjoint, 'repeat': repeat,
    'repeat_interleave': repeat_interleave, 'tile': tile, 'swapaxes': swapaxes, 'swapdims': transpose,
    'tensor_split': tensor_split, 'unsafe_split': unsafe_split, 'unsafe_chunk': unsafe_chunk, 'scatter': scatter,
    'index_copy': index_copy, 'index_fill': index_fill, 'masked_scatter': masked_scatter, 'put': put, 'take': take,
    'select_scatter': select_scatter, 'slice_scatter': slice_scatter, 'diagonal_scatter': diagonal_scatter,
    'as_strided_scatter': as_strided_scatter, 'scatter_reduce': scatter_reduce, 'diag': diag, 'diag_embed': diag_embed,
    'diagflat': diagflat, 'dsplit': dsplit, 'fliplr': fliplr, 'flipud': flipud, 'hsplit': hsplit, 'kron': kron,
    'rot90': rot90, 'split_with_sizes': split_with_sizes, 'sum_to_size': sum_to_size, 'vsplit': vsplit,
    'matmul': matmul, 'mm': mm, 'bmm': bmm, 'mv': mv, 'dot': dot, 'addmm': addmm, 'outer': outer, 'trace': trace,
    'addbmm': addbmm, 'addmv': addmv, 'addr': addr, 'baddbmm': baddbmm, 'dist': dist, 'ger': outer, 'inner': inner,
    'vdot': vdot, 'cholesky': cholesky, 'cholesky_inverse': cholesky_inverse, 'cholesky_solve': cholesky_solve,
    'cross': cross, 'det': det, 'inverse': inverse, 'logdet': logdet, 'lu_solve': lu_solve, 'matrix_exp': matrix_exp,
    'matrix_power': matrix_power, 'pinverse': pinverse, 'qr': qr, 'slogdet': slogdet, 'svd': svd,
    'triangular_solve': triangular_solve, 'index_select': index_select, 'gather': gather,
    'take_along_dim': take_along_dim, 'scatter_add': scatter_add, 'index_add': index_add, 'index_put': index_put,
    'masked_fill': masked_fill, 'masked_select': masked_select, 'nonzero': nonzero, 'tril': tril, 'triu': triu,
    'argwhere': argwhere, 'sort': sort, 'argsort': argsort, 'msort': msort, 'topk': topk, 'kthvalue': kthvalue,
    'median': median, 'nanmedian': nanmedian, 'mode': mode, 'quantile': quantile, 'nanquantile': nanquantile,
    'unique': unique, 'unique_consecutive': unique_consecutive, 'bincount': bincount, 'histc': histc,
    'histogram': histogram, 'bernoulli': bernoulli, 'multinomial': multinomial, 'new_zeros': new_zeros,
    'new_ones': new_ones, 'new_full': new_full, 'new_empty': new_zeros, 'new_empty_strided': new_empty_strided,
    'clone': clone, 'contiguous': contiguous, 'cpu': cpu, 'get_device': get_device, 'is_contiguous': is_contiguous,
    'storage': storage, 'untyped_storage': untyped_storage, 'record_stream': record_stream, 'to': _bare.METHODS['to'],
    'type_as': type_as, 'vcpu': vcpu, 'detach_': detach_, 'set_': set_, 'resize_': resize_, 'bfloat16': bfloat16,
    'bool': bool, 'byte': byte, 'cdouble': cdouble, 'cfloat': cfloat, 'char': char, 'half': half, 'int': int,
    'long': long, 'short': short, 'cuda': cuda, 'new_tensor': new_tensor, 'polygamma': polygamma_method,
    'where': where_method,
}

INPLACE_METHODS = {
    'abs_': abs_, 'acos_': acos_, 'asin_': asin_, 'atan_': atan_, 'ceil_': ceil_, 'cos_': cos_, 'cosh_': cosh_,
    'exp_': exp_, 'exp2_': exp2_, 'expm1_': expm1_, 'erf_': erf_, 'floor_': floor_, 'log_': log_, 'log10_': log10_,
    'log1p_': log1p_, 'log2_': log2_, 'neg_': neg_, 'reciprocal_': reciprocal_, 'relu_': relu_, 'rsqrt_': rsqrt_,
    'sigmoid_': sigmoid_, 'sign_': sign_, 'sin_': sin_, 'sinh_': sinh_, 'sqrt_': sqrt_, 'tan_': tan_, 'tanh_': tanh_,
    'trunc_': trunc_, 'bitwise_not_': bitwise_not_, 'logical_not_': logical_not_, 'lgamma_': lgamma_,
    'digamma_': digamma_, 'erfinv_': erfinv_, 'asinh_': asinh_, 'acosh_': acosh_, 'atanh_': atanh_, 'erfc_': erfc_,
    'sinc_': sinc_, 'rad2deg_': rad2deg_, 'deg2rad_': deg2rad_, 'frac_': frac_, 'sgn_': sgn_, 'i0_': i0_, 'mul_': mul_,
    'remainder_': remainder_, 'fmod_': fmod_, 'floor_divide_': floor_divide_, 'atan2_': atan2_,
    'logical_and_': logical_and_, 'logical_or_': logical_or_, 'logical_xor_': logical_xor_, 'copysign_': copysign_,
    'hypot_': hypot_, 'heaviside_': heaviside_, 'nextafter_': nextafter_, 'ldexp_': ldexp_, 'xlogy_': xlogy_,
    'bitwise_and_': bitwise_and_, 'bitwise_or_': bitwise_or_, 'bitwise_xor_': bitwise_xor_,
    'bitwise_left_shift_': bitwise_left_shift_, 'bitwise_right_shift_': bitwise_right_shift_, 'gcd_': gcd_,
    'lcm_': lcm_, 'eq_': eq_, 'ne_': ne_, 'lt_': lt_, 'le_': le_, 'gt_': gt_, 'ge_': ge_, 'cumsum_': cumsum_,
    'cumprod_': cumprod_, 'add_': add_, 'sub_': sub_, 'div_': div_, 'pow_': pow_, 'float_power_': float_power_,
    'square_': square_, 'clamp_': clamp_, 'clamp_min_': clamp_min_, 'clamp_max_': clamp_max_, 'lerp_': lerp_,
    'round_': round_, 'addcmul_': addcmul_, 'addcdiv_': addcdiv_, 'addmm_': addmm_, 'fill_diagonal_': fill_diagonal_,
    'logit_': logit_, 'nan_to_num_': nan_to_num_, 'polygamma_': polygamma_, 'copy_': copy_, 'fill_': fill_,
    'zero_': zero_, 'uniform_': uniform_, 'normal_': normal_, 'bernoulli_': bernoulli_, 'random_': random_,
    'exponential_': exponential_, 'geometric_': geometric_, 'cauchy_': cauchy_, 'log_normal_': log_normal_,
    'absolute_': abs_, 'negative_': neg_, 'arcsin_': asin_, 'arccos_': acos_, 'arctan_': atan_, 'arctan2_': atan2_,
    'arcsinh_': asinh_, 'arccosh_': acosh_, 'arctanh_': atanh_, 'fix_': trunc_, 'clip_': clamp_, 'subtract_': sub_,
    'multiply_': mul_, 'divide_': div_, 'true_divide_': div_, 'greater_': gt_, 'greater_equal_': ge_, 'less_': lt_,
    'less_equal_': le_, 'not_equal_': ne_, 'masked_fill_': masked_fill_, 'scatter_add_': scatter_add_,
    'index_add_': index_add_, 'index_put_': index_put_, 'tril_': tril_, 'triu_': triu_, 'scatter_': scatter_,
    'scatter_reduce_': scatter_reduce_, 'index_copy_': index_copy_, 'index_fill_': index_fill_,
    'masked_scatter_': masked_scatter_, 'put_': put_, 'transpose_': transpose_, 't_': t_, 'squeeze_': squeeze_,
    'unsqueeze_': unsqueeze_, 'swapaxes_': swapaxes_, 'swapdims_': transpose_,
}

LAYERS = {
    'relu': functional_relu, 'elu_': elu_, 'celu_': celu_, 'selu_': selu_, 'hardtanh_': hardtanh_,
    'leaky_relu_': leaky_relu_, 'threshold_': threshold_, 'rrelu_': rrelu_,
}

MADE = (
    (celu, _bare.PUBLIC['celu']), (elu, _bare.PUBLIC['elu']), (gelu, _bare.PUBLIC['gelu']), (glu, _bare.PUBLIC['glu']),
    (hardshrink, _bare.PUBLIC['hardshrink']), (hardsigmoid, _bare.PUBLIC['hardsigmoid']),
    (hardswish, _bare.PUBLIC['hardswish']), (hardtanh, _bare.PUBLIC['hardtanh']),
    (leaky_relu, _bare.PUBLIC['leaky_relu']), (logsigmoid, _bare.PUBLIC['logsigmoid']), (mish, _bare.PUBLIC['mish']),
    (prelu, _bare.PUBLIC['prelu']), (relu6, _bare.PUBLIC['relu6']), (selu, _bare.PUBLIC['selu']),
    (silu, _bare.PUBLIC['silu']), (softmin, _bare.PUBLIC['softmin']), (softplus, _bare.PUBLIC['softplus']),
    (softshrink, _bare.PUBLIC['softshrink']), (softsign, _bare.PUBLIC['softsign']),
    (tanhshrink, _bare.PUBLIC['tanhshrink']), (threshold, _bare.PUBLIC['threshold']), (arange, _bare.PUBLIC['arange']),
    (empty, _bare.PUBLIC['empty']), (zeros_like, _bare.PUBLIC['zeros_like']),
    (empty_strided, _bare.PUBLIC['empty_strided']), (eye, _bare.PUBLIC['eye']), (full, _bare.PUBLIC['full']),
    (full_like, _bare.PUBLIC['full_like']), (linspace, _bare.PUBLIC['linspace']), (ones, _bare.PUBLIC['ones']),
    (ones_like, _bare.PUBLIC['ones_like']), (zeros, _bare.PUBLIC['zeros']),
    (alpha_dropout, _bare.PUBLIC['alpha_dropout']), (dropout, _bare.PUBLIC['dropout']),
    (dropout1d, _bare.PUBLIC['dropout1d']), (dropout2d, _bare.PUBLIC['dropout2d']),
    (dropout3d, _bare.PUBLIC['dropout3d']), (feature_alpha_dropout, _bare.PUBLIC['feature_alpha_dropout']),
    (gumbel_softmax, _bare.PUBLIC['gumbel_softmax']), (rrelu, _bare.PUBLIC['rrelu']), (einsum, _bare.PUBLIC['einsum']),
    (argwhere, _bare.PUBLIC['argwhere']), (gather, _bare.PUBLIC['gather']), (index_add, _bare.PUBLIC['index_add']),
    (index_put, _bare.PUBLIC['index_put']), (index_select, _bare.PUBLIC['index_select']),
    (masked_fill, _bare.PUBLIC['masked_fill']), (masked_select, _bare.PUBLIC['masked_select']),
    (nonzero, _bare.PUBLIC['nonzero']), (scatter_add, _bare.PUBLIC['scatter_add']),
    (take_along_dim, _bare.PUBLIC['take_along_dim']), (tril, _bare.PUBLIC['tril']), (triu, _bare.PUBLIC['triu']),
    (atleast_1d, _bare.PUBLIC['atleast_1d']), (atleast_2d, _bare.PUBLIC['atleast_2d']),
    (atleast_3d, _bare.PUBLIC['atleast_3d']), (block_diag, _bare.PUBLIC['block_diag']),
    (broadcast_shapes, _bare.PUBLIC['broadcast_shapes']), (broadcast_tensors, _bare.PUBLIC['broadcast_tensors']),
    (cartesian_prod, _bare.PUBLIC['cartesian_prod']), (cat, _bare.PUBLIC['cat']),
    (column_stack, _bare.PUBLIC['column_stack']), (combinations, _bare.PUBLIC['combinations']),
    (diag, _bare.PUBLIC['diag']), (diag_embed, _bare.PUBLIC['diag_embed']), (diagflat, _bare.PUBLIC['diagflat']),
    (dsplit, _bare.PUBLIC['dsplit']), (dstack, _bare.PUBLIC['dstack']), (fliplr, _bare.PUBLIC['fliplr']),
    (flipud, _bare.PUBLIC['flipud']), (hsplit, _bare.PUBLIC['hsplit']), (hstack, _bare.PUBLIC['hstack']),
    (kron, _bare.PUBLIC['kron']), (meshgrid, _bare.PUBLIC['meshgrid']), (pad, _bare.PUBLIC['pad']),
    (rot90, _bare.PUBLIC['rot90']), (vstack, _bare.PUBLIC['vstack']),
    (split_with_sizes, _bare.PUBLIC['split_with_sizes']), (stack, _bare.PUBLIC['stack']),
    (sum_to_size, _bare.PUBLIC['sum_to_size']), (vsplit, _bare.PUBLIC['vsplit']),
    (avg_pool2d, _bare.PUBLIC['avg_pool2d']), (batch_norm, _bare.PUBLIC['batch_norm']),
    (conv2d, _bare.PUBLIC['conv2d']), (embedding, _bare.PUBLIC['embedding']), (layer_norm, _bare.PUBLIC['layer_norm']),
    (max_pool2d, _bare.PUBLIC['max_pool2d']), (normalize, _bare.PUBLIC['normalize']),
    (one_hot, _bare.PUBLIC['one_hot']), (rms_norm, _bare.PUBLIC['rms_norm']),
    (scaled_dot_product_attention, _bare.PUBLIC['scaled_dot_product_attention']), (addbmm, _bare.PUBLIC['addbmm']),
    (addmm, _bare.PUBLIC['addmm']), (addmv, _bare.PUBLIC['addmv']), (addr, _bare.PUBLIC['addr']),
    (baddbmm, _bare.PUBLIC['baddbmm']), (bmm, _bare.PUBLIC['bmm']), (chain_matmul, _bare.PUBLIC['chain_matmul']),
    (cholesky, _bare.PUBLIC['cholesky']), (cholesky_inverse, _bare.PUBLIC['cholesky_inverse']),
    (cholesky_solve, _bare.PUBLIC['cholesky_solve']), (cross, _bare.PUBLIC['cross']), (det, _bare.PUBLIC['det']),
    (dist, _bare.PUBLIC['dist']), (dot, _bare.PUBLIC['dot']), (outer, _bare.PUBLIC['outer']),
    (inner, _bare.PUBLIC['inner']), (inverse, _bare.PUBLIC['inverse']), (linear, _bare.PUBLIC['linear']),
    (logdet, _bare.PUBLIC['logdet']), (lu_solve, _bare.PUBLIC['lu_solve']), (lu_unpack, _bare.PUBLIC['lu_unpack']),
    (matmul, _bare.PUBLIC['matmul']), (matrix_exp, _bare.PUBLIC['matrix_exp']),
    (matrix_power, _bare.PUBLIC['matrix_power']), (mm, _bare.PUBLIC['mm']), (mv, _bare.PUBLIC['mv']),
    (pinverse, _bare.PUBLIC['pinverse']), (qr, _bare.PUBLIC['qr']), (slogdet, _bare.PUBLIC['slogdet']),
    (svd, _bare.PUBLIC['svd']), (trace, _bare.PUBLIC['trace']), (triangular_solve, _bare.PUBLIC['triangular_solve']),
    (vdot, _bare.PUBLIC['vdot']), (binary_cross_entropy, _bare.PUBLIC['binary_cross_entropy']),
    (binary_cross_entropy_with_logits, _bare.PUBLIC['binary_cross_entropy_with_logits']),
    (cross_entropy, _bare.PUBLIC['cross_entropy']), (huber_loss, _bare.PUBLIC['huber_loss']),
    (kl_div, _bare.PUBLIC['kl_div']), (l1_loss, _bare.PUBLIC['l1_loss']), (mse_loss, _bare.PUBLIC['mse_loss']),
    (nll_loss, _bare.PUBLIC['nll_loss']), (smooth_l1_loss, _bare.PUBLIC['smooth_l1_loss']),
    (argsort, _bare.PUBLIC['argsort']), (bincount, _bare.PUBLIC['bincount']), (bucketize, _bare.PUBLIC['bucketize']),
    (histc, _bare.PUBLIC['histc']), (histogram, _bare.PUBLIC['histogram']), (isin, _bare.PUBLIC['isin']),
    (kthvalue, _bare.PUBLIC['kthvalue']), (median, _bare.PUBLIC['median']), (mode, _bare.PUBLIC['mode']),
    (msort, _bare.PUBLIC['msort']), (nanmedian, _bare.PUBLIC['nanmedian']), (nanquantile, _bare.PUBLIC['nanquantile']),
    (quantile, _bare.PUBLIC['quantile']), (searchsorted, _bare.PUBLIC['searchsorted']), (sort, _bare.PUBLIC['sort']),
    (topk, _bare.PUBLIC['topk']), (unique, _bare.PUBLIC['unique']),
    (unique_consecutive, _bare.PUBLIC['unique_consecutive']), (abs, _bare.PUBLIC['abs']), (acos, _bare.PUBLIC['acos']),
    (acosh, _bare.PUBLIC['acosh']), (add, _bare.PUBLIC['add']), (addcdiv, _bare.PUBLIC['addcdiv']),
    (addcmul, _bare.PUBLIC['addcmul']), (asin, _bare.PUBLIC['asin']), (asinh, _bare.PUBLIC['asinh']),
    (atan, _bare.PUBLIC['atan']), (atan2, _bare.PUBLIC['atan2']), (atanh, _bare.PUBLIC['atanh']),
    (bitwise_and, _bare.PUBLIC['bitwise_and']), (bitwise_left_shift, _bare.PUBLIC['bitwise_left_shift']),
    (bitwise_not, _bare.PUBLIC['bitwise_not']), (bitwise_or, _bare.PUBLIC['bitwise_or']),
    (bitwise_right_shift, _bare.PUBLIC['bitwise_right_shift']), (bitwise_xor, _bare.PUBLIC['bitwise_xor']),
    (ceil, _bare.PUBLIC['ceil']), (clamp, _bare.PUBLIC['clamp']), (clamp_max, _bare.PUBLIC['clamp_max']),
    (clamp_min, _bare.PUBLIC['clamp_min']), (copysign, _bare.PUBLIC['copysign']), (cos, _bare.PUBLIC['cos']),
    (cosh, _bare.PUBLIC['cosh']), (deg2rad, _bare.PUBLIC['deg2rad']), (digamma, _bare.PUBLIC['digamma']),
    (div, _bare.PUBLIC['div']), (eq, _bare.PUBLIC['eq']), (erf, _bare.PUBLIC['erf']), (erfc, _bare.PUBLIC['erfc']),
    (erfinv, _bare.PUBLIC['erfinv']), (exp, _bare.PUBLIC['exp']), (exp2, _bare.PUBLIC['exp2']),
    (expm1, _bare.PUBLIC['expm1']), (trunc, _bare.PUBLIC['trunc']), (float_power, _bare.PUBLIC['float_power']),
    (floor, _bare.PUBLIC['floor']), (floor_divide, _bare.PUBLIC['floor_divide']), (fmax, _bare.PUBLIC['fmax']),
    (fmin, _bare.PUBLIC['fmin']), (fmod, _bare.PUBLIC['fmod']), (frac, _bare.PUBLIC['frac']),
    (gcd, _bare.PUBLIC['gcd']), (ge, _bare.PUBLIC['ge']), (gt, _bare.PUBLIC['gt']),
    (heaviside, _bare.PUBLIC['heaviside']), (hypot, _bare.PUBLIC['hypot']), (i0, _bare.PUBLIC['i0']),
    (isclose, _bare.PUBLIC['isclose']), (isfinite, _bare.PUBLIC['isfinite']), (isinf, _bare.PUBLIC['isinf']),
    (isnan, _bare.PUBLIC['isnan']), (isneginf, _bare.PUBLIC['isneginf']), (isposinf, _bare.PUBLIC['isposinf']),
    (isreal, _bare.PUBLIC['isreal']), (lcm, _bare.PUBLIC['lcm']), (ldexp, _bare.PUBLIC['ldexp']),
    (le, _bare.PUBLIC['le']), (lerp, _bare.PUBLIC['lerp']), (lt, _bare.PUBLIC['lt']), (lgamma, _bare.PUBLIC['lgamma']),
    (log, _bare.PUBLIC['log']), (log1p, _bare.PUBLIC['log1p']), (log2, _bare.PUBLIC['log2']),
    (log10, _bare.PUBLIC['log10']), (logaddexp, _bare.PUBLIC['logaddexp']), (logaddexp2, _bare.PUBLIC['logaddexp2']),
    (logical_and, _bare.PUBLIC['logical_and']), (logical_not, _bare.PUBLIC['logical_not']),
    (logical_or, _bare.PUBLIC['logical_or']), (logical_xor, _bare.PUBLIC['logical_xor']),
    (logit, _bare.PUBLIC['logit']), (maximum, _bare.PUBLIC['maximum']), (minimum, _bare.PUBLIC['minimum']),
    (mul, _bare.PUBLIC['mul']), (nan_to_num, _bare.PUBLIC['nan_to_num']), (ne, _bare.PUBLIC['ne']),
    (neg, _bare.PUBLIC['neg']), (nextafter, _bare.PUBLIC['nextafter']), (polygamma, _bare.PUBLIC['polygamma']),
    (positive, _bare.PUBLIC['positive']), (pow, _bare.PUBLIC['pow']), (rad2deg, _bare.PUBLIC['rad2deg']),
    (reciprocal, _bare.PUBLIC['reciprocal']), (relu, _bare.PUBLIC['relu']), (remainder, _bare.PUBLIC['remainder']),
    (round, _bare.PUBLIC['round']), (rsqrt, _bare.PUBLIC['rsqrt']), (rsub, _bare.PUBLIC['rsub']),
    (sgn, _bare.PUBLIC['sgn']), (sigmoid, _bare.PUBLIC['sigmoid']), (sign, _bare.PUBLIC['sign']),
    (signbit, _bare.PUBLIC['signbit']), (sin, _bare.PUBLIC['sin']), (sinc, _bare.PUBLIC['sinc']),
    (sinh, _bare.PUBLIC['sinh']), (sqrt, _bare.PUBLIC['sqrt']), (square, _bare.PUBLIC['square']),
    (sub, _bare.PUBLIC['sub']), (tan, _bare.PUBLIC['tan']), (tanh, _bare.PUBLIC['tanh']),
    (where, _bare.PUBLIC['where']), (xlogy, _bare.PUBLIC['xlogy']), (all, _bare.PUBLIC['all']),
    (allclose, _bare.PUBLIC['allclose']), (amax, _bare.PUBLIC['amax']), (amin, _bare.PUBLIC['amin']),
    (aminmax, _bare.PUBLIC['aminmax']), (any, _bare.PUBLIC['any']), (argmax, _bare.PUBLIC['argmax']),
    (argmin, _bare.PUBLIC['argmin']), (count_nonzero, _bare.PUBLIC['count_nonzero']), (cummax, _bare.PUBLIC['cummax']),
    (cummin, _bare.PUBLIC['cummin']), (cumprod, _bare.PUBLIC['cumprod']), (cumsum, _bare.PUBLIC['cumsum']),
    (cumulative_trapezoid, _bare.PUBLIC['cumulative_trapezoid']), (diff, _bare.PUBLIC['diff']),
    (equal, _bare.PUBLIC['equal']), (is_complex, _bare.PUBLIC['is_complex']),
    (is_floating_point, _bare.PUBLIC['is_floating_point']), (is_nonzero, _bare.PUBLIC['is_nonzero']),
    (is_same_size, _bare.PUBLIC['is_same_size']), (is_signed, _bare.PUBLIC['is_signed']),
    (log_softmax, _bare.PUBLIC['log_softmax']), (logcumsumexp, _bare.PUBLIC['logcumsumexp']),
    (logsumexp, _bare.PUBLIC['logsumexp']), (max, _bare.PUBLIC['max']), (mean, _bare.PUBLIC['mean']),
    (min, _bare.PUBLIC['min']), (nanmean, _bare.PUBLIC['nanmean']), (nansum, _bare.PUBLIC['nansum']),
    (norm, _bare.PUBLIC['norm']), (prod, _bare.PUBLIC['prod']), (softmax, _bare.PUBLIC['softmax']),
    (std, _bare.PUBLIC['std']), (sum, _bare.PUBLIC['sum']), (trapezoid, _bare.PUBLIC['trapezoid']),
    (var, _bare.PUBLIC['var']), (vector_norm, _bare.PUBLIC['vector_norm']), (bernoulli, _bare.PUBLIC['bernoulli']),
    (multinomial, _bare.PUBLIC['multinomial']), (normal, _bare.PUBLIC['normal']), (poisson, _bare.PUBLIC['poisson']),
    (rand, _bare.PUBLIC['rand']), (rand_like, _bare.PUBLIC['rand_like']), (randint, _bare.PUBLIC['randint']),
    (randint_like, _bare.PUBLIC['randint_like']), (randn, _bare.PUBLIC['randn']),
    (randn_like, _bare.PUBLIC['randn_like']), (randperm, _bare.PUBLIC['randperm']),
    (as_strided_scatter, _bare.PUBLIC['as_strided_scatter']), (diagonal_scatter, _bare.PUBLIC['diagonal_scatter']),
    (index_copy, _bare.PUBLIC['index_copy']), (index_fill, _bare.PUBLIC['index_fill']),
    (masked_scatter, _bare.PUBLIC['masked_scatter']), (put, _bare.PUBLIC['put']), (scatter, _bare.PUBLIC['scatter']),
    (scatter_reduce, _bare.PUBLIC['scatter_reduce']), (select_scatter, _bare.PUBLIC['select_scatter']),
    (slice_scatter, _bare.PUBLIC['slice_scatter']), (take, _bare.PUBLIC['take']), (adjoint, _bare.PUBLIC['adjoint']),
    (as_strided, _bare.PUBLIC['as_strided']), (broadcast_to, _bare.PUBLIC['broadcast_to']),
    (chunk, _bare.PUBLIC['chunk']), (detach, _bare.PUBLIC['detach']), (diagonal, _bare.PUBLIC['diagonal']),
    (expand, _bare.PUBLIC['expand']), (expand_as, _bare.PUBLIC['expand_as']), (flatten, _bare.PUBLIC['flatten']),
    (flip, _bare.PUBLIC['flip']), (movedim, _bare.PUBLIC['movedim']), (narrow, _bare.PUBLIC['narrow']),
    (permute, _bare.PUBLIC['permute']), (ravel, _bare.PUBLIC['ravel']), (repeat, _bare.PUBLIC['repeat']),
    (repeat_interleave, _bare.PUBLIC['repeat_interleave']), (reshape, _bare.PUBLIC['reshape']),
    (reshape_as, _bare.PUBLIC['reshape_as']), (roll, _bare.PUBLIC['roll']), (select, _bare.PUBLIC['select']),
    (split, _bare.PUBLIC['split']), (squeeze, _bare.PUBLIC['squeeze']), (swapaxes, _bare.PUBLIC['swapaxes']),
    (transpose, _bare.PUBLIC['transpose']), (t, _bare.PUBLIC['t']), (tensor_split, _bare.PUBLIC['tensor_split']),
    (tile, _bare.PUBLIC['tile']), (unbind, _bare.PUBLIC['unbind']), (unflatten, _bare.PUBLIC['unflatten']),
    (unfold, _bare.PUBLIC['unfold']), (unsafe_chunk, _bare.PUBLIC['unsafe_chunk']),
    (unsafe_split, _bare.PUBLIC['unsafe_split']), (unsqueeze, _bare.PUBLIC['unsqueeze']), (view, _bare.PUBLIC['view']),
    (view_as, _bare.PUBLIC['view_as']), (clone, _bare.PUBLIC['clone']), (contiguous, _bare.PUBLIC['contiguous']),
    (split_method, _bare.METHODS['split']), (new_zeros, _bare.METHODS['new_zeros']),
    (new_ones, _bare.METHODS['new_ones']), (new_full, _bare.METHODS['new_full']),
    (new_empty_strided, _bare.METHODS['new_empty_strided']), (cpu, _bare.METHODS['cpu']),
    (get_device, _bare.METHODS['get_device']), (is_contiguous, _bare.METHODS['is_contiguous']),
    (storage, _bare.METHODS['storage']), (untyped_storage, _bare.METHODS['untyped_storage']),
    (record_stream, _bare.METHODS['record_stream']), (type_as, _bare.METHODS['type_as']),
    (vcpu, _bare.METHODS['vcpu']), (detach_, _bare.METHODS['detach_']), (set_, _bare.METHODS['set_']),
    (resize_, _bare.METHODS['resize_']), (bfloat16, _bare.METHODS['bfloat16']), (bool, _bare.METHODS['bool']),
    (byte, _bare.METHODS['byte']), (cdouble, _bare.METHODS['cdouble']), (cfloat, _bare.METHODS['cfloat']),
    (char, _bare.METHODS['char']), (half, _bare.METHODS['half']), (int, _bare.METHODS['int']),
    (long, _bare.METHODS['long']), (short, _bare.METHODS['short']), (cuda, _bare.METHODS['cuda']),
    (new_tensor, _bare.METHODS['new_tensor']), (polygamma_method, _bare.METHODS['polygamma']),
    (where_method, _bare.METHODS['where']), (abs_, _bare.INPLACE_METHODS['abs_']),
    (acos_, _bare.INPLACE_METHODS['acos_']), (asin_, _bare.INPLACE_METHODS['asin_']),
    (atan_, _bare.INPLACE_METHODS['atan_']), (ceil_, _bare.INPLACE_METHODS['ceil_']),
    (cos_, _bare.INPLACE_METHODS['cos_']), (cosh_, _bare.INPLACE_METHODS['cosh_']),
    (exp_, _bare.INPLACE_METHODS['exp_']), (exp2_, _bare.INPLACE_METHODS['exp2_']),
    (expm1_, _bare.INPLACE_METHODS['expm1_']), (erf_, _bare.INPLACE_METHODS['erf_']),
    (floor_, _bare.INPLACE_METHODS['floor_']), (log_, _bare.INPLACE_METHODS['log_']),
    (log10_, _bare.INPLACE_METHODS['log10_']), (log1p_, _bare.INPLACE_METHODS['log1p_']),
    (log2_, _bare.INPLACE_METHODS['log2_']), (neg_, _bare.INPLACE_METHODS['neg_']),
    (reciprocal_, _bare.INPLACE_METHODS['reciprocal_']), (relu_, _bare.INPLACE_METHODS['relu_']),
    (rsqrt_, _bare.INPLACE_METHODS['rsqrt_']), (sigmoid_, _bare.INPLACE_METHODS['sigmoid_']),
    (sign_, _bare.INPLACE_METHODS['sign_']), (sin_, _bare.INPLACE_METHODS['sin_']),
    (sinh_, _bare.INPLACE_METHODS['sinh_']), (sqrt_, _bare.INPLACE_METHODS['sqrt_']),
    (tan_, _bare.INPLACE_METHODS['tan_']), (tanh_, _bare.INPLACE_METHODS['tanh_']),
    (trunc_, _bare.INPLACE_METHODS['trunc_']), (bitwise_not_, _bare.INPLACE_METHODS['bitwise_not_']),
    (logical_not_, _bare.INPLACE_METHODS['logical_not_']), (lgamma_, _bare.INPLACE_METHODS['lgamma_']),
    (digamma_, _bare.INPLACE_METHODS['digamma_']), (erfinv_, _bare.INPLACE_METHODS['erfinv_']),
    (asinh_, _bare.INPLACE_METHODS['asinh_']), (acosh_, _bare.INPLACE_METHODS['acosh_']),
    (atanh_, _bare.INPLACE_METHODS['atanh_']), (erfc_, _bare.INPLACE_METHODS['erfc_']),
    (sinc_, _bare.INPLACE_METHODS['sinc_']), (rad2deg_, _bare.INPLACE_METHODS['rad2deg_']),
    (deg2rad_, _bare.INPLACE_METHODS['deg2rad_']), (frac_, _bare.INPLACE_METHODS['frac_']),
    (sgn_, _bare.INPLACE_METHODS['sgn_']), (i0_, _bare.INPLACE_METHODS['i0_']), (mul_, _bare.INPLACE_METHODS['mul_']),
    (remainder_, _bare.INPLACE_METHODS['remainder_']), (fmod_, _bare.INPLACE_METHODS['fmod_']),
    (floor_divide_, _bare.INPLACE_METHODS['floor_divide_']), (atan2_, _bare.INPLACE_METHODS['atan2_']),
    (logical_and_, _bare.INPLACE_METHODS['logical_and_']), (logical_or_, _bare.INPLACE_METHODS['logical_or_']),
    (logical_xor_, _bare.INPLACE_METHODS['logical_xor_']), (copysign_, _bare.INPLACE_METHODS['copysign_']),
    (hypot_, _bare.INPLACE_METHODS['hypot_']), (heaviside_, _bare.INPLACE_METHODS['heaviside_']),
    (nextafter_, _bare.INPLACE_METHODS['nextafter_']), (ldexp_, _bare.INPLACE_METHODS['ldexp_']),
    (xlogy_, _bare.INPLACE_METHODS['xlogy_']), (bitwise_and_, _bare.INPLACE_METHODS['bitwise_and_']),
    (bitwise_or_, _bare.INPLACE_METHODS['bitwise_or_']), (bitwise_xor_, _bare.INPLACE_METHODS['bitwise_xor_']),
    (bitwise_left_shift_, _bare.INPLACE_METHODS['bitwise_left_shift_']),
    (bitwise_right_shift_, _bare.INPLACE_METHODS['bitwise_right_shift_']), (gcd_, _bare.INPLACE_METHODS['gcd_']),
    (lcm_, _bare.INPLACE_METHODS['lcm_']), (eq_, _bare.INPLACE_METHODS['eq_']), (ne_, _bare.INPLACE_METHODS['ne_']),
    (lt_, _bare.INPLACE_METHODS['lt_']), (le_, _bare.INPLACE_METHODS['le_']), (gt_, _bare.INPLACE_METHODS['gt_']),
    (ge_, _bare.INPLACE_METHODS['ge_']), (cumsum_, _bare.INPLACE_METHODS['cumsum_']),
    (cumprod_, _bare.INPLACE_METHODS['cumprod_']), (add_, _bare.INPLACE_METHODS['add_']),
    (sub_, _bare.INPLACE_METHODS['sub_']), (div_, _bare.INPLACE_METHODS['div_']),
    (pow_, _bare.INPLACE_METHODS['pow_']), (float_power_, _bare.INPLACE_METHODS['float_power_']),
    (square_, _bare.INPLACE_METHODS['square_']), (clamp_, _bare.INPLACE_METHODS['clamp_']),
    (clamp_min_, _bare.INPLACE_METHODS['clamp_min_']), (clamp_max_, _bare.INPLACE_METHODS['clamp_max_']),
    (lerp_, _bare.INPLACE_METHODS['lerp_']), (round_, _bare.INPLACE_METHODS['round_']),
    (addcmul_, _bare.INPLACE_METHODS['addcmul_']), (addcdiv_, _bare.INPLACE_METHODS['addcdiv_']),
    (addmm_, _bare.INPLACE_METHODS['addmm_']), (fill_diagonal_, _bare.INPLACE_METHODS['fill_diagonal_']),
    (logit_, _bare.INPLACE_METHODS['logit_']), (nan_to_num_, _bare.INPLACE_METHODS['nan_to_num_']),
    (polygamma_, _bare.INPLACE_METHODS['polygamma_']), (copy_, _bare.INPLACE_METHODS['copy_']),
    (fill_, _bare.INPLACE_METHODS['fill_']), (zero_, _bare.INPLACE_METHODS['zero_']),
    (uniform_, _bare.INPLACE_METHODS['uniform_']), (normal_, _bare.INPLACE_METHODS['normal_']),
    (bernoulli_, _bare.INPLACE_METHODS['bernoulli_']), (random_, _bare.INPLACE_METHODS['random_']),
    (exponential_, _bare.INPLACE_METHODS['exponential_']), (geometric_, _bare.INPLACE_METHODS['geometric_']),
    (cauchy_, _bare.INPLACE_METHODS['cauchy_']), (log_normal_, _bare.INPLACE_METHODS['log_normal_']),
    (masked_fill_, _bare.INPLACE_METHODS['masked_fill_']), (scatter_add_, _bare.INPLACE_METHODS['scatter_add_']),
    (index_add_, _bare.INPLACE_METHODS['index_add_']), (index_put_, _bare.INPLACE_METHODS['index_put_']),
    (tril_, _bare.INPLACE_METHODS['tril_']), (triu_, _bare.INPLACE_METHODS['triu_']),
    (scatter_, _bare.INPLACE_METHODS['scatter_']), (scatter_reduce_, _bare.INPLACE_METHODS['scatter_reduce_']),
    (index_copy_, _bare.INPLACE_METHODS['index_copy_']), (index_fill_, _bare.INPLACE_METHODS['index_fill_']),
    (masked_scatter_, _bare.INPLACE_METHODS['masked_scatter_']), (put_, _bare.INPLACE_METHODS['put_']),
    (transpose_, _bare.INPLACE_METHODS['transpose_']), (t_, _bare.INPLACE_METHODS['t_']),
    (squeeze_, _bare.INPLACE_METHODS['squeeze_']), (unsqueeze_, _bare.INPLACE_METHODS['unsqueeze_']),
    (swapaxes_, _bare.INPLACE_METHODS['swapaxes_']), (functional_relu, _bare.LAYERS['relu']),
    (elu_, _bare.LAYERS['elu_']), (celu_, _bare.LAYERS['celu_']), (selu_, _bare.LAYERS['selu_']),
    (hardtanh_, _bare.LAYERS['hardtanh_']), (leaky_relu_, _bare.LAYERS['leaky_relu_']),
    (threshold_, _bare.LAYERS['threshold_']), (rrelu_, _bare.LAYERS['rrelu_']),
)
"""(function, the bare function). The function's name is that of its row in ``SIGNATURES``."""

FRONTS = (
    (gelu, 'call', (None, ('gelu', 1, ('none',)), ('gelu', 1, ()))),
    (glu, 'call', (None, ('glu', 1, (-1,)), ('glu', 1, ()))),
    (hardshrink, 'call', (None, ('hardshrink', 1, (0.5,)), ('hardshrink', 1, ()))),
    (logsigmoid, 'call', (None, ('log_sigmoid', 1, ()))),
    (softshrink, 'call', (None, ('softshrink', 1, (0.5,)), ('softshrink', 1, ()))),
    (masked_fill, 'call', (None, None, None, ('masked_fill', 2, ()))),
    (tril, 'call', (None, ('tril', 1, (0,)), ('tril', 1, ()))),
    (triu, 'call', (None, ('triu', 1, (0,)), ('triu', 1, ()))), (dot, 'call', (None, None, ('dot', 2, ()))),
    (mv, 'call', (None, None, ('mv', 2, ()))), (abs, 'call', (None, ('abs', 1, ()))),
    (acos, 'call', (None, ('acos', 1, ()))), (acosh, 'call', (None, ('acosh', 1, ()))),
    (add, 'call', (None, None, ('add', 1, ()), ('add_scaled', 1, ()))),
    (addcdiv, 'call', (None, None, None, None, ('addcdiv', 3, ()))),
    (addcmul, 'call', (None, None, None, None, ('addcmul', 3, ()))), (asin, 'call', (None, ('asin', 1, ()))),
    (asinh, 'call', (None, ('asinh', 1, ()))), (atan, 'call', (None, ('atan', 1, ()))),
    (atan2, 'call', (None, None, ('atan2', 2, ()))), (atanh, 'call', (None, ('atanh', 1, ()))),
    (bitwise_not, 'call', (None, ('bitwise_not', 1, ()))), (ceil, 'call', (None, ('ceil', 1, ()))),
    (clamp_max, 'call', (None, None, ('clamp_max', 1, ()))), (clamp_min, 'call', (None, None, ('clamp_min', 1, ()))),
    (cos, 'call', (None, ('cos', 1, ()))), (cosh, 'call', (None, ('cosh', 1, ()))),
    (deg2rad, 'call', (None, ('deg2rad', 1, ()))), (digamma, 'call', (None, ('digamma', 1, ()))),
    (div, 'call', (None, None, ('div', 1, ()))), (eq, 'call', (None, None, ('eq', 1, ()))),
    (erf, 'call', (None, ('erf', 1, ()))), (erfc, 'call', (None, ('erfc', 1, ()))),
    (erfinv, 'call', (None, ('erfinv', 1, ()))), (exp, 'call', (None, ('exp', 1, ()))),
    (exp2, 'call', (None, ('exp2', 1, ()))), (expm1, 'call', (None, ('expm1', 1, ()))),
    (trunc, 'call', (None, ('trunc', 1, ()))), (floor, 'call', (None, ('floor', 1, ()))),
    (floor_divide, 'call', (None, None, ('floor_divide', 1, ()))), (fmod, 'call', (None, None, ('fmod', 1, ()))),
    (frac, 'call', (None, ('frac', 1, ()))), (ge, 'call', (None, None, ('ge', 1, ()))),
    (gt, 'call', (None, None, ('gt', 1, ()))), (i0, 'call', (None, ('i0', 1, ()))),
    (isclose, 'call', (None, None, ('isclose', 2, (1e-05, 1e-08, False)), ('isclose', 2, (1e-08, False)), ('isclose', 2, (False,)), ('isclose', 2, ()))),
    (isfinite, 'call', (None, ('isfinite', 1, ()))), (isinf, 'call', (None, ('isinf', 1, ()))),
    (isnan, 'call', (None, ('isnan', 1, ()))), (isneginf, 'call', (None, ('isneginf', 1, ()))),
    (isposinf, 'call', (None, ('isposinf', 1, ()))), (isreal, 'call', (None, ('isreal', 1, ()))),
    (le, 'call', (None, None, ('le', 1, ()))), (lerp, 'call', (None, None, None, ('lerp', 2, ()))),
    (lt, 'call', (None, None, ('lt', 1, ()))), (lgamma, 'call', (None, ('lgamma', 1, ()))),
    (log, 'call', (None, ('log', 1, ()))), (log1p, 'call', (None, ('log1p', 1, ()))),
    (log2, 'call', (None, ('log2', 1, ()))), (log10, 'call', (None, ('log10', 1, ()))),
    (logaddexp, 'call', (None, None, ('logaddexp', 2, ()))),
    (logical_and, 'call', (None, None, ('logical_and', 2, ()))), (logical_not, 'call', (None, ('logical_not', 1, ()))),
    (logical_or, 'call', (None, None, ('logical_or', 2, ()))),
    (logical_xor, 'call', (None, None, ('logical_xor', 2, ()))),
    (logit, 'call', (None, ('logit', 1, (None,)), ('logit', 1, ()))),
    (maximum, 'call', (None, None, ('maximum', 2, ()))), (minimum, 'call', (None, None, ('minimum', 2, ()))),
    (mul, 'call', (None, None, ('mul', 1, ()))), (ne, 'call', (None, None, ('ne', 1, ()))),
    (neg, 'call', (None, ('neg', 1, ()))), (rad2deg, 'call', (None, ('rad2deg', 1, ()))),
    (reciprocal, 'call', (None, ('reciprocal', 1, ()))), (relu, 'call', (None, ('relu', 1, ()))),
    (rsqrt, 'call', (None, ('rsqrt', 1, ()))), (rsub, 'call', (None, None, ('rsub', 1, ()))),
    (sgn, 'call', (None, ('sgn', 1, ()))), (sigmoid, 'call', (None, ('sigmoid', 1, ()))),
    (sign, 'call', (None, ('sign', 1, ()))), (signbit, 'call', (None, ('signbit', 1, ()))),
    (sin, 'call', (None, ('sin', 1, ()))), (sinc, 'call', (None, ('sinc', 1, ()))),
    (sinh, 'call', (None, ('sinh', 1, ()))), (sqrt, 'call', (None, ('sqrt', 1, ()))),
    (square, 'call', (None, ('pow_scalar', 1, (2,)))),
    (sub, 'call', (None, None, ('sub', 1, ()), ('sub_scaled', 1, ()))), (tan, 'call', (None, ('tan', 1, ()))),
    (tanh, 'call', (None, ('tanh', 1, ()))),
    (argmax, 'call', (None, ('argmax', 1, (None, False)), ('argmax', 1, (False,)), ('argmax', 1, ()))),
    (argmin, 'call', (None, ('argmin', 1, (None, False)), ('argmin', 1, (False,)), ('argmin', 1, ()))),
    (log_softmax, 'call', (None, None, ('_log_softmax', 1, ()))), (softmax, 'call', (None, None, ('_softmax', 1, ()))),
    (diagonal_scatter, 'call', (None, None, ('diagonal_scatter', 2, (0, 0, 1)), ('diagonal_scatter', 2, (0, 1)), ('diagonal_scatter', 2, (1,)), ('diagonal_scatter', 2, ()))),
    (masked_scatter, 'call', (None, None, None, ('masked_scatter', 3, ()))),
    (select_scatter, 'call', (None, None, None, None, ('select_scatter', 2, ()))),
    (take, 'call', (None, None, ('take', 2, ()))), (detach, 'call', (None, ('detach', 1, ()))),
    (diagonal, 'call', (None, ('diagonal', 1, (0, 0, 1)), ('diagonal', 1, (0, 1)), ('diagonal', 1, (1,)), ('diagonal', 1, ()))),
    (select, 'call', (None, None, None, ('select', 1, ()))),
    (swapaxes, 'call', (None, None, None, ('transpose', 1, ()))),
    (transpose, 'call', (None, None, None, ('transpose', 1, ()))), (t, 'call', (None, ('t', 1, ()))),
    (unfold, 'call', (None, None, None, None, ('unfold', 1, ()))),
    (unsafe_split, 'call', (None, None, ('unsafe_split', 1, (0,)), ('unsafe_split', 1, ()))),
    (unsqueeze, 'call', (None, None, ('unsqueeze', 1, ()))), (abs_, 'write', (None, 'abs')),
    (acos_, 'write', (None, 'acos')), (asin_, 'write', (None, 'asin')), (atan_, 'write', (None, 'atan')),
    (ceil_, 'write', (None, 'ceil')), (cos_, 'write', (None, 'cos')), (cosh_, 'write', (None, 'cosh')),
    (exp_, 'write', (None, 'exp')), (exp2_, 'write', (None, 'exp2')), (expm1_, 'write', (None, 'expm1')),
    (erf_, 'write', (None, 'erf')), (floor_, 'write', (None, 'floor')), (log_, 'write', (None, 'log')),
    (log10_, 'write', (None, 'log10')), (log1p_, 'write', (None, 'log1p')), (log2_, 'write', (None, 'log2')),
    (neg_, 'write', (None, 'neg')), (reciprocal_, 'write', (None, 'reciprocal')), (relu_, 'write', (None, 'relu')),
    (rsqrt_, 'write', (None, 'rsqrt')), (sigmoid_, 'write', (None, 'sigmoid')), (sign_, 'write', (None, 'sign')),
    (sin_, 'write', (None, 'sin')), (sinh_, 'write', (None, 'sinh')), (sqrt_, 'write', (None, 'sqrt')),
    (tan_, 'write', (None, 'tan')), (tanh_, 'write', (None, 'tanh')), (trunc_, 'write', (None, 'trunc')),
    (bitwise_not_, 'write', (None, 'bitwise_not')), (logical_not_, 'write', (None, 'logical_not')),
    (lgamma_, 'write', (None, 'lgamma')), (digamma_, 'write', (None, 'digamma')), (erfinv_, 'write', (None, 'erfinv')),
    (asinh_, 'write', (None, 'asinh')), (acosh_, 'write', (None, 'acosh')), (atanh_, 'write', (None, 'atanh')),
    (erfc_, 'write', (None, 'erfc')), (sinc_, 'write', (None, 'sinc')), (rad2deg_, 'write', (None, 'rad2deg')),
    (deg2rad_, 'write', (None, 'deg2rad')), (frac_, 'write', (None, 'frac')), (sgn_, 'write', (None, 'sgn')),
    (i0_, 'write', (None, 'i0')), (mul_, 'write', (None, None, 'mul')),
    (remainder_, 'write', (None, None, 'remainder')), (fmod_, 'write', (None, None, 'fmod')),
    (floor_divide_, 'write', (None, None, 'floor_divide')), (eq_, 'write', (None, None, 'eq_as_self')),
    (ne_, 'write', (None, None, 'ne_as_self')), (lt_, 'write', (None, None, 'lt_as_self')),
    (le_, 'write', (None, None, 'le_as_self')), (gt_, 'write', (None, None, 'gt_as_self')),
    (ge_, 'write', (None, None, 'ge_as_self')), (add_, 'write', (None, None, 'add', 'add_scaled')),
    (sub_, 'write', (None, None, 'sub', 'sub_scaled')), (clamp_min_, 'write', (None, None, 'clamp_min')),
    (clamp_max_, 'write', (None, None, 'clamp_max')), (round_, 'write', (None, 'round')),
    (functional_relu, 'call', (None, ('relu', 1, ()))),
)
"""(function, kind of its front, its row), see ``compiled/native_fronts.py``."""

OTHER_NAMES = {'split_method': 'split', 'polygamma_method': 'polygamma', 'where_method': 'where', 'functional_relu': 'relu'}
"""Public names that differ from that."""
