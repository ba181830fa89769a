// Sums: rounding of the sums inside products, as by tensor cores and other units.
#pragma once

#include <algorithm>  // max
#include <cmath>      // trunc, ilogb, ldexp

namespace gx::reference {

/// The sums of a convolution or a linear layer. Products of fp16 or bf16 are exact in all three.
///
///     exact      in double, not rounded until the result is stored
///     fp32       each addition rounded to fp32, to nearest, ties to even
///     truncated  each addition as V100's tensor cores align one: both addends lose what lies below
///                the last of 24 bits of the larger one, and the result what lies below its own
///
/// With n products whose magnitudes add up to M, a sum is from the exact one at most
///
///     fp32       n 2^-24 M / (1 - n 2^-24)
///     truncated  n 2^-22 M / (1 - n 2^-22), always towards 0 where all products have one sign
///
/// V100 adds four products and the sum so far in one aligned step, this one product at a time, so
/// bits differ; five truncations to 24 bits in place of eight stay within the same bound.
/// Source: Fasi, Higham, Mikaitis, Pranesh 2021, "Numerical behavior of NVIDIA tensor cores",
///         PeerJ Computer Science 7:e330, sections 3.2 to 3.4; Higham 2002, section 4.2.
enum class Sums : unsigned char { exact, fp32, truncated };

struct AddExactly {
    void operator()(double& sum, double product) const { sum += product; }
};
struct AddInFp32 {
    /// One rounding: 53 bits are more than twice 24 and 2, so that of double does not show.
    /// Source: Figueroa 1995, "When is double rounding innocuous?".
    void operator()(double& sum, double product) const {
        sum = static_cast<double>(static_cast<float>(sum + product));
    }
};
struct AddTruncated {
    void operator()(double& sum, double product) const {
        const double larger = std::max(std::fabs(sum), std::fabs(product));
        if (larger == 0 || !std::isfinite(larger)) {
            sum += product;
            return;
        }
        sum = cut(sum, larger) + cut(product, larger);
        sum = cut(sum, std::fabs(sum));
    }

private:
    /// x without what lies below the last of the 24 bits of `of`.
    static double cut(double x, double of) {
        if (of == 0) return x;
        const int last = std::max(std::ilogb(of), -126) - 23;
        return std::ldexp(std::trunc(std::ldexp(x, -last)), last);
    }
};

/// Calls f(the addition of `sums`).
template <class F>
void with_sums(Sums sums, F&& f) {
    switch (sums) {
        case Sums::exact: return f(AddExactly{});
        case Sums::fp32: return f(AddInFp32{});
        case Sums::truncated: return f(AddTruncated{});
    }
}

}  // namespace gx::reference
