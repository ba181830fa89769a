#include <gx/model/compute.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <concepts>  // same_as

#include <gx/model/cifar_resnet.hpp>  // ResNet20
#include <gx/model/concept.hpp>       // graph

namespace {

using namespace gx;

// ---- What the type promises ---------------------------------------------------------
static_assert(std::same_as<Compute<bf16>::compute_type, bf16>);
static_assert(explain_compute<Compute<fp32>>() && explain_compute<Compute<fp16>>());
static_assert(sizeof(Compute<bf16>) == 1, "a choice, and no state");

/// A policy of one's own.
struct Half {
    using compute_type = fp16;
};
static_assert(explain_compute<Half>());
struct Doubles {
    using compute_type = double;
};
static_assert(detail::compute::NamesItsElement<Half> && !detail::compute::NamesItsElement<Doubles>);

// ---- A case worked by hand ----------------------------------------------------------
TEST(Compute, LeavesScaleAndShiftOfBatchNormsInFp32) {
    const Graph net = graph<ResNet20>();
    std::int64_t in_e = 0, in_fp32 = 0;
    for (const Parameter& p : net.parameters) (in_compute_type(p.role) ? in_e : in_fp32) += p.count;
    // 7 norms of 16 channels, 7 of 32 and 7 of 64, those of shortcuts with them; two numbers each.
    EXPECT_EQ(in_fp32, 2 * 7 * (16 + 32 + 64));
    EXPECT_EQ(in_e, net.parameter_elements() - in_fp32);
}

}  // namespace
