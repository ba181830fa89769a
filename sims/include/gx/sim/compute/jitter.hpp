// Jitter: variation of compute time by named distributions, bit-equal on every compiler.
#pragma once

#include <array>        // names
#include <cstdint>      // int64_t
#include <string_view>  // names

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/core/rng.hpp>       // Rng
#include <gx/core/units.hpp>     // Nanoseconds

namespace gx::sim {

namespace detail::jitter {

inline constexpr int fraction_bits = 24;
inline constexpr std::int64_t one = std::int64_t{1} << fraction_bits;

/// e^x for x in [-20, 20], to about 1e-10 of it, and 1e-13 for |x| <= 6.6: e^(x / 1024), squared
/// ten times.
[[nodiscard]] constexpr double exp(double x) {
    using gx::detail::rng::polynomial;
    using gx::detail::rng::rounded;
    constexpr std::array<double, 6> terms{1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120};
    double y = polynomial(terms, x * 0x1p-10);
    for (int i = 0; i < 10; ++i) y = rounded(y * y);
    return y;
}

}  // namespace detail::jitter

/// A factor on a time, in steps of 2^-24, so that a product with nanoseconds is exact in integers.
struct Factor {
    std::int64_t steps = detail::jitter::one;

    [[nodiscard]] static constexpr Factor of(double times) {
        return {static_cast<std::int64_t>(times * detail::jitter::one + 0.5)};
    }
    [[nodiscard]] constexpr double value() const {
        return static_cast<double>(steps) / detail::jitter::one;
    }
    /// `t` this many times, rounded to the nearest nanosecond. t below 2^53 ns and a factor below
    /// 1000: 104 days.
    [[nodiscard]] friend constexpr Nanoseconds operator*(Nanoseconds t, Factor f) {
        constexpr int bits = detail::jitter::fraction_bits;
        const std::int64_t whole = t.count() >> bits, rest = t.count() & (detail::jitter::one - 1);
        return Nanoseconds(whole * f.steps +
                           ((rest * f.steps + (detail::jitter::one >> 1)) >> bits));
    }
    /// Both, one behind the other.
    [[nodiscard]] friend constexpr Factor operator*(Factor a, Factor b) {
        return a == Factor{} ? b : Factor{(Nanoseconds(a.steps) * b).count()};
    }
    [[nodiscard]] constexpr auto operator<=>(const Factor&) const = default;
};

/// How a time varies from one draw to the next. `amount` and `chance` mean, by distribution,
///
///     none          always 1
///     uniform       1 - amount ... 1 + amount, each as likely
///     exponential   1 + amount * E, E exponential with mean 1: rarely late, and then by much
///     lognormal     e^(amount * Z), Z standard normal: median 1
///     straggler     amount with a chance of `chance`, else 1
///
/// Order:  a draw depends on the stream and the counter alone; equal bits on every compiler.
/// Errors: check() names a parameter that is out of range.
struct Jitter {
    enum class Kind : unsigned char { none, uniform, exponential, lognormal, straggler };
    Kind kind = Kind::none;
    double amount = 0, chance = 0;

    [[nodiscard]] static constexpr Jitter uniform(double share) {
        return checked({Kind::uniform, share});
    }
    [[nodiscard]] static constexpr Jitter exponential(double mean) {
        return checked({Kind::exponential, mean});
    }
    [[nodiscard]] static constexpr Jitter lognormal(double sigma) {
        return checked({Kind::lognormal, sigma});
    }
    [[nodiscard]] static constexpr Jitter straggler(double chance, double factor) {
        return checked({Kind::straggler, factor, chance});
    }

    /// A sentence, or nothing where the parameters are in range.
    [[nodiscard]] constexpr std::string_view fault() const {
        switch (kind) {
            case Kind::none: break;
            case Kind::uniform:
                if (!(amount >= 0 && amount < 1))
                    return "uniform jitter is a share of at least 0 and below 1";
                break;
            case Kind::exponential:
                if (!(amount >= 0 && amount <= 10))
                    return "exponential jitter has a mean of 0 to 10 times the time";
                break;
            case Kind::lognormal:
                if (!(amount >= 0 && amount <= 0.8))
                    return "lognormal jitter has a sigma of 0 to 0.8";
                break;
            case Kind::straggler:
                if (!(amount >= 1 && amount < 1000 && chance >= 0 && chance <= 1))
                    return "a straggler takes 1 to 1000 times the time, with a chance of 0 to 1";
                break;
        }
        return {};
    }

    /// Draw `counter` of `stream`. A uniform draw of 0 share, and `none`, are exactly 1.
    [[nodiscard]] constexpr Factor draw(const Rng& stream, std::uint64_t counter) const {
        switch (kind) {
            case Kind::none: break;
            case Kind::uniform:
                return Factor::of(
                    1.0 + gx::detail::rng::rounded(amount * (2.0 * stream.uniform(counter) - 1.0)));
            case Kind::exponential: {
                const double u = double{stream.uniform(counter)} + 0x1p-25;  // never 0
                const double late = -gx::detail::rng::log(u);
                return Factor::of(1.0 + gx::detail::rng::rounded(amount * late));
            }
            case Kind::lognormal:
                return Factor::of(
                    detail::jitter::exp(amount * static_cast<double>(stream.normal(counter))));
            case Kind::straggler:
                return stream.uniform(counter) < chance ? Factor::of(amount) : Factor{};
        }
        return {};
    }

private:
    [[nodiscard]] static constexpr Jitter checked(Jitter j) {
        GX_EXPECT(j.fault().empty(), "jitter out of range: ask fault() which");
        return j;
    }
};
[[nodiscard]] constexpr std::string_view to_string(Jitter::Kind kind) {
    constexpr std::array<std::string_view, 5> names{"none", "uniform", "exponential", "lognormal",
                                                    "straggler"};
    return names[static_cast<std::size_t>(kind)];
}

/// How the GPUs of a cluster differ from their data sheet: each for good, and from pass to pass.
/// Source: Sinha et al. 2022, "Not all GPUs are created equal", SC22: GPUs of one kind in one
///         machine room differ by 8 % on average.
struct GpuVariation {
    Jitter gpu{};   ///< one draw a rank: chips, cooling
    Jitter pass{};  ///< one draw for each forward and each backward of a rank

    /// Of pass number `pass` of `rank`.
    [[nodiscard]] constexpr Factor factor(std::uint64_t seed, int rank,
                                          std::uint64_t number) const {
        const auto r = static_cast<std::uint64_t>(rank);
        return of_gpu(seed, rank) * pass.draw(Rng(seed, "variation of passes").at(r), number);
    }
    /// The part of it that stays.
    [[nodiscard]] constexpr Factor of_gpu(std::uint64_t seed, int rank) const {
        return gpu.draw(Rng(seed, "GPU variation"), static_cast<std::uint64_t>(rank));
    }
    /// The largest of all ranks: in lock step all ranks wait for it.
    [[nodiscard]] constexpr Factor slowest(std::uint64_t seed, int ranks,
                                           std::uint64_t number) const {
        Factor most{0};
        for (int r = 0; r < ranks; ++r) {
            const Factor f = factor(seed, r, number);
            if (f > most) most = f;
        }
        return most;
    }
};

/// GpuVariation::factor at run time.
[[nodiscard]] GX_DECL Factor factor_of_pass(const GpuVariation& variation, std::uint64_t seed,
                                            int rank, std::uint64_t number);

/// Compute beside communication: the kernels of a collective take multiprocessors and bandwidth, so
/// a kernel that starts while its rank communicates takes (1 + share) of its time. 0: nothing.
struct OverlapSlowdown {
    double share = 0;

    [[nodiscard]] constexpr Nanoseconds slowed(Nanoseconds t, bool communicating) const {
        return communicating && share > 0 ? t * Factor::of(1.0 + share) : t;
    }
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/compute/impl/jitter.ipp>
#endif
