#include <fuzz/oracles.hpp>

#include <cmath>   // abs, isfinite, sqrt
#include <limits>  // infinity

#include <gx/testing/bounds.hpp>  // mean_bounds

namespace gx::sim::fuzz {

namespace {

[[nodiscard]] bool all_finite(std::span<const float> values) {
    return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

/// Buckets as a Pipeline cuts a gradient, from its end; and each in pieces of the size that the
/// reducer asks for, from its front, as Bucketed does.
void for_each_bucket(const Gradient& g, std::size_t elements, auto f) {
    const auto most = static_cast<std::size_t>(g.bucket_elements);
    const auto piece =
        g.kind.bucket_elements > 0 ? static_cast<std::size_t>(g.kind.bucket_elements) : most;
    for (std::size_t end = elements; end > 0; end -= std::min(end, most))
        for (std::size_t begin = end - std::min(end, most); begin < end; begin += piece)
            f(begin, std::min(end, begin + piece));
}

std::string beyond(std::size_t i, double got, double expected, double bound) {
    return ", element " + std::to_string(i) + ": " + std::to_string(got) + " instead of " +
           std::to_string(expected) + " within " + std::to_string(bound);
}

std::string check_rounded(const Gradient& g, std::span<const double> mean) {
    const auto bound = testing::mean_bounds(g.kind.wire, g.rows);
    for (std::size_t i = 0; i < mean.size() && g.first->applied; ++i) {
        const double got = g.first->mean[i];
        if (!(std::abs(got - mean[i]) <= bound[i])) return beyond(i, got, mean[i], bound[i]);
    }
    return {};
}

/// Of one rank: values sent are the largest, and enough of them.
std::string check_sent(const Gradient& g, std::span<const float> row,
                       const RankLog::Resolved& rank) {
    std::string wrong;
    for_each_bucket(g, row.size(), [&](std::size_t begin, std::size_t end) {
        std::size_t sent = 0;
        float least_sent = std::numeric_limits<float>::infinity(), most_kept = 0;
        for (std::size_t i = begin; i < end; ++i) {
            const float v = row[i] + rank.before[i];
            if (rank.kept[i] == 0) ++sent;
            if (rank.kept[i] == 0 && v != 0) least_sent = std::min(least_sent, std::abs(v));
            most_kept = std::max(most_kept, std::abs(rank.kept[i]));
        }
        if (100 * sent < static_cast<std::size_t>(g.kind.promise.sent_pct) * (end - begin))
            wrong = ": " + std::to_string(sent) + " of " + std::to_string(end - begin) +
                    " values are sent, less than " + std::to_string(g.kind.promise.sent_pct) + " %";
        if (least_sent < most_kept)
            wrong = ": " + std::to_string(least_sent) + " is sent, and " +
                    std::to_string(most_kept) + " is kept";
    });
    return wrong;
}

std::string check_feedback(const Gradient& g) {
    for (std::size_t r = 0; r < g.resolved.size(); ++r) {
        const RankLog::Resolved& now = *g.resolved[r];
        const RankLog::Resolved* earlier = g.earlier[r];
        if (earlier && !same_bits(earlier->kept, now.before))
            return ": its residual is not what the gradient before it left";
        if (!now.applied && !same_bits(now.kept, now.before))
            return ": it was left out, and its residual was kept";
    }
    if (!g.first->applied || g.resolved.size() != g.rows.size()) return {};
    const double n = static_cast<double>(g.rows.size());
    for (std::size_t i = 0; i < g.first->mean.size(); ++i) {
        double sum = 0, magnitudes = 0;
        for (std::size_t r = 0; r < g.rows.size(); ++r) {
            const double row = g.rows[r][i], before = g.resolved[r]->before[i],
                         after = g.resolved[r]->kept[i];
            sum += row + before - after;
            magnitudes += std::abs(row) + std::abs(before) + std::abs(after);
        }
        const double bound =
            testing::mean_bound(g.kind.wire, static_cast<int>(g.rows.size()), magnitudes);
        const double got = g.first->mean[i];
        if (!(std::abs(got - sum / n) <= bound)) return beyond(i, got, sum / n, bound);
    }
    for (std::size_t r = 0; r < g.rows.size() && g.kind.promise.sent_pct > 0; ++r)
        if (const auto wrong = check_sent(g, g.rows[r], *g.resolved[r]); !wrong.empty())
            return wrong;
    return {};
}

/// An upper bound of the step of a block whose largest magnitude is at most `largest`: for 8 bits
/// the largest floats take 126 steps in place of 127.
[[nodiscard]] double step_of(double largest, int levels) {
    return largest / (levels - levels / 100) * (1 + 0x1p-20) + 0x1p-149;
}

std::string check_unbiased(const Gradient& g, std::span<const double> mean, Bias& bias) {
    if (!g.first->applied) return {};
    constexpr std::size_t block = 256;
    constexpr double v = 0x1p-24;
    const int levels = g.kind.promise.levels;
    const double n = static_cast<double>(g.rows.size());
    std::string wrong;
    const auto check_block = [&](std::size_t begin, std::size_t end) {
        double steps = 0, squares = 0, most_mean = 0;
        for (const auto& row : g.rows) {
            double largest = 0;
            for (std::size_t i = begin; i < end; ++i)
                largest = std::max(largest, std::abs(double{row[i]}));
            const double s = step_of(largest, levels);
            steps += s / n;
            squares += s * s / (n * n);
        }
        for (std::size_t i = begin; i < end; ++i)
            most_mean = std::max(most_mean, std::abs(mean[i]));
        const double last = step_of(most_mean + steps, levels);
        for (std::size_t i = begin; i < end && wrong.empty(); ++i) {
            const double got = g.first->mean[i];
            const double bound = steps + last + 2 * v * (std::abs(mean[i]) + steps + last);
            if (!(std::abs(got - mean[i]) <= bound)) wrong = beyond(i, got, mean[i], bound);
            bias.error += got - mean[i];
            bias.squares += squares + last * last;
        }
    };
    for_each_bucket(g, mean.size(), [&](std::size_t begin, std::size_t end) {
        for (; begin < end; begin += block) check_block(begin, std::min(end, begin + block));
    });
    // P(|error| >= t) <= 2 exp(-2 t^2 / squares)
    const double most = std::sqrt(0.5 * std::log(2e15) * bias.squares);
    if (wrong.empty() && std::abs(bias.error) > most)
        wrong = ": errors add up to " + std::to_string(bias.error) +
                ", and those of an unbiased rounding stay within " + std::to_string(most);
    return wrong;
}

}  // namespace

std::vector<float> in_parts(std::span<const float> all, std::span<const ChunkRange> parts) {
    std::vector<float> out;
    for (const ChunkRange& p : parts)
        out.insert(out.end(), all.begin() + p.begin, all.begin() + p.end);
    return out;
}

std::string check_mean(const Gradient& g, Bias& bias) {
    const auto mean = testing::column_means(g.rows);
    const bool finite =
        std::all_of(mean.begin(), mean.end(), [](double x) { return std::isfinite(x); });
    if (finite != g.first->applied)
        return finite ? " was left out, and its mean is finite"
                      : " was applied, and its mean is not finite";
    switch (g.kind.accuracy) {
        case Accuracy::error_feedback: return check_feedback(g);
        case Accuracy::unbiased: return check_unbiased(g, mean, bias);
        default: return check_rounded(g, mean);
    }
}

void check_apart(const ReducerKind& kind, const Scenario& s, std::size_t world, const WorldLog& log,
                 std::int64_t images, Verdict& v) {
    const auto n = static_cast<std::int64_t>(log.ranks.size());
    std::int64_t of_epoch = 0;  // updates that this world has made of it
    std::size_t most = 0;
    for (const RankLog& rank : log.ranks) most = std::max(most, rank.resolved.size());
    for (std::size_t g = 0; g < most; ++g) {
        images = std::min(images + n * s.batch, s.samples);
        const bool last = images == s.samples;
        const bool exchanged = ++of_epoch % kind.promise.period == 0 || last;
        if (last) images = of_epoch = 0;
        testing::Rows locals;
        const RankLog::Resolved* first = nullptr;
        for (std::size_t r = 0; r < log.ranks.size(); ++r) {
            const RankLog& rank = log.ranks[r];
            if (g >= rank.resolved.size()) continue;
            const RankLog::Resolved& now = rank.resolved[g];
            locals.push_back(now.local);
            std::vector<float> expected;  // none of a first gradient that was left out
            if (g > 0) expected = rank.resolved[g - 1].mean;
            else if (now.applied) expected = rank.start;
            if (now.applied != all_finite(rank.rows[g]))
                return v.fail(Kind::correctness,
                              at(world, r, g) + (now.applied ? " was applied, not finite"
                                                             : " was left out, finite"));
            for (std::size_t i = 0; i < expected.size() && now.applied; ++i)
                expected[i] += rank.rows[g][i];
            if (!expected.empty() && !same_bits(now.local, expected))
                return v.fail(Kind::correctness,
                              at(world, r, g) + ": not its parameters plus its gradient");
            if (!exchanged && !same_bits(now.mean, now.local))
                return v.fail(Kind::correctness, at(world, r, g) + ": changed without a mean");
            if (exchanged && first && !same_bits(first->mean, now.mean))
                return v.fail(Kind::correctness,
                              at(world, r, g) + ": replicas are not bitwise equal");
            first = &now;
        }
        if (!exchanged || locals.size() != log.ranks.size()) continue;
        const auto mean = testing::column_means(locals);
        const auto bound = testing::mean_bounds(kind.wire, locals);
        for (std::size_t i = 0; i < mean.size(); ++i) {
            const double got = first->mean[i];
            if (!(std::abs(got - mean[i]) <= bound[i]))
                return v.fail(Kind::correctness,
                              at(world, 0, g) + beyond(i, got, mean[i], bound[i]));
        }
    }
}

}  // namespace gx::sim::fuzz
