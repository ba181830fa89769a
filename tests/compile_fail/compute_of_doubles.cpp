// expect: gx: a Device computes in fp32, tf32, fp16 or bf16, and this Compute names another type
// later: gx: not a Compute: its 'compute_type' is not fp32, tf32, fp16 or bf16
#include <gx/model/compute.hpp>

gx::Compute<double> policy;
struct Mine {
    using compute_type = double;
};
static_assert(gx::explain_compute<Mine>());
