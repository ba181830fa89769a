// norm: batch normalisation with residual add and ReLU behind it, as four steps.
#pragma once

#include <algorithm>  // fill, max
#include <cmath>      // sqrt
#include <cstdint>    // int64_t
#include <span>       // running statistics

#include <gx/core/cold.hpp>                   // GX_COLD
#include <gx/core/trivial_vector.hpp>         // sums
#include <gx/onednn/detail/layout.hpp>        // Layout
#include <gx/onednn/detail/norm_kernels.hpp>  // the passes
#include <gx/onednn/detail/numbers.hpp>       // with_number
#include <gx/onednn/detail/owned_list.hpp>    // OwnedList
#include <gx/onednn/detail/program.hpp>       // Step

namespace gx::onednn::detail {

/// y = relu(gamma * (x - mean) / sqrt(variance + epsilon) + beta + residual); residual and ReLU if
/// any. What its four steps share.
struct Norm {
    using Coefficients = TrivialVector<float, 64>;  // of channels; vectors lie in one cache line
    Layout layout{};
    double epsilon = 0, momentum = 0;
    bool relu = false;
    const Buffer *x = nullptr, *residual = nullptr;
    Buffer* y = nullptr;
    const float *gamma = nullptr, *beta = nullptr;          // (channels), padded with zeros
    std::size_t gamma_offset = 0, beta_offset = 0;          // in the flat gradient
    float *running_mean = nullptr, *running_var = nullptr;  // (shape.channels)

    struct Sums {
        TrivialVector<double> first{}, second{};
        Coefficients shift{};
    };
    OwnedList<Sums> lanes{};
    Coefficients scale{}, shift{}, mean{}, of_g{}, of_x{}, constant{};
    TrivialVector<double> inverse_deviation{};

    GX_COLD void allocate(int lane_count) {
        const auto c = static_cast<std::size_t>(layout.channels());
        while (lanes.count() < lane_count) {
            Sums& s = lanes.add();
            s.first.resize(c), s.second.resize(c), s.shift.resize(c);
        }
        for (auto* v : {&scale, &shift, &mean, &of_g, &of_x, &constant}) v->assign(c, 0.0f);
        inverse_deviation.assign(c, 0.0);
    }
    [[nodiscard]] Sums& sums(int lane) { return lanes[lane]; }

    /// Source: Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for
    ///         computing sample variances": lanes combine in order, in double.
    void finish_statistics(const Run& run) {
        for (std::size_t c = 0; c < scale.size(); ++c) {
            double count = 0, average = 0, squares = 0;
            for (int l = 0; l < run.lanes; ++l) {
                const double n = static_cast<double>(run.lane_count(l)) * layout.pixels();
                if (n == 0) continue;
                const Sums& s = sums(l);
                const double lane_mean = static_cast<double>(s.shift[c]) + s.first[c] / n;
                const double lane_squares =
                    std::max(0.0, s.second[c] - s.first[c] * s.first[c] / n);
                const double apart = lane_mean - average, total = count + n;
                average += apart * n / total;
                squares += lane_squares + apart * apart * count * n / total;
                count = total;
            }
            set_affine(c, average, squares / count);
            if (run.keeps_statistics && c < static_cast<std::size_t>(layout.shape.channels))
                keep_running(c, average, count > 1 ? squares / (count - 1) : squares / count);
        }
    }
    /// `to` is y of `from` and `add`, or of `from` alone where that is null.
    void apply(const Buffer& from, const Buffer* add, Buffer& to, const Place& at) const {
        with_number(from.type, [&]<class E>(E) {
            run_kernel<NormApply<E>>(typename NormApply<E>::Args{
                from.image_of<E>(at.first), add != nullptr ? add->image_of<E>(at.first) : nullptr,
                to.image_of<E>(at.first), layout.grid(at.count), scale.data(), shift.data(), relu});
        });
    }
    void use_running() {
        for (std::size_t c = 0; c < static_cast<std::size_t>(layout.shape.channels); ++c)
            set_affine(c, static_cast<double>(running_mean[c]),
                       static_cast<double>(running_var[c]));
    }
    void finish_gradients(Run& run) {
        double count = 0;
        for (int l = 0; l < run.lanes; ++l)
            count += static_cast<double>(run.lane_count(l)) * layout.pixels();
        for (std::size_t c = 0; c < scale.size(); ++c) {
            double sum = 0, products = 0;
            for (int l = 0; l < run.lanes; ++l) {
                if (run.lane_count(l) == 0) continue;
                sum += sums(l).first[c];
                products += sums(l).second[c];
            }
            const double r = inverse_deviation[c], factor = static_cast<double>(gamma[c]) * r;
            run.gradients[beta_offset + c] = static_cast<float>(sum);
            run.gradients[gamma_offset + c] = static_cast<float>(products * r);
            const double slope = -factor * r * r * products / count;
            of_g[c] = static_cast<float>(factor);
            of_x[c] = static_cast<float>(slope);
            constant[c] =
                static_cast<float>(-factor * sum / count - slope * static_cast<double>(mean[c]));
        }
    }

private:
    void set_affine(std::size_t c, double average, double variance) {
        const double r = 1.0 / std::sqrt(variance + epsilon);
        const double factor = static_cast<double>(gamma[c]) * r;
        inverse_deviation[c] = r;
        mean[c] = static_cast<float>(average);
        scale[c] = static_cast<float>(factor);
        shift[c] = static_cast<float>(static_cast<double>(beta[c]) - average * factor);
    }
    void keep_running(std::size_t c, double average, double unbiased) {
        running_mean[c] = static_cast<float>((1 - momentum) * static_cast<double>(running_mean[c]) +
                                             momentum * average);
        running_var[c] = static_cast<float>((1 - momentum) * static_cast<double>(running_var[c]) +
                                            momentum * unbiased);
    }
};

/// Sums about the mean of a lane's first image. That is within the square root of the lane's number
/// of images deviations of the lane's.
class NormSumsStep : public Step {
public:
    explicit NormSumsStep(Norm& norm) : norm_(norm) {}
    void run(const Run& run, const Place& at) override {
        if (run.mode == Mode::evaluate) return;
        with_number(norm_.x->type, [&]<class E>(E) {
            auto& sums = norm_.sums(at.lane);
            const E* x = norm_.x->image_of<E>(at.first);
            if (at.opens) {
                std::ranges::fill(sums.shift, 0.0f);
                begin(sums);
                add<E>(sums, x, 1);
                for (std::size_t c = 0; c < sums.shift.size(); ++c)
                    sums.shift[c] = static_cast<float>(sums.first[c] / norm_.layout.pixels());
                begin(sums);
            }
            add<E>(sums, x, at.count);
        });
    }

private:
    static void begin(Norm::Sums& sums) {
        std::ranges::fill(sums.first, 0.0);
        std::ranges::fill(sums.second, 0.0);
    }
    template <class E>
    void add(Norm::Sums& sums, const E* x, int images) {
        run_kernel<NormSums<E>>(typename NormSums<E>::Args{x, norm_.layout.grid(images),
                                                           sums.shift.data(), sums.first.data(),
                                                           sums.second.data()});
    }

    Norm& norm_;
};

class NormApplyStep : public Step {
public:
    explicit NormApplyStep(Norm& norm) : norm_(norm) {}
    void begin(Run& run) override {
        if (run.mode == Mode::evaluate) return norm_.use_running();
        norm_.finish_statistics(run);
    }
    void run(const Run&, const Place& at) override {
        norm_.apply(*norm_.x, norm_.residual, *norm_.y, at);
    }

private:
    Norm& norm_;
};

/// Works out y again in the backward pass, from x and the residual. It does by the statistics of
/// the forward pass: the same bits, for less memory than keeping them.
class NormAgainStep : public Step {
public:
    NormAgainStep(const Norm& norm, const Buffer& x, const Buffer* residual, Buffer& y)
        : norm_(norm), x_(x), residual_(residual), y_(y) {}
    void run(const Run&, const Place& at) override { norm_.apply(x_, residual_, y_, at); }

private:
    const Norm& norm_;
    const Buffer& x_;
    const Buffer* residual_;
    Buffer& y_;
};

/// The gradient that arrives: one buffer, or two that are added on the way.
struct NormGradient {
    Buffer *first = nullptr, *second = nullptr;
    Buffer* out = nullptr;     ///< of x; may be `first` when there is no residual
    Buffer* x = nullptr;       ///< as in the forward pass, kept or worked out again
    Buffer* mask_y = nullptr;  ///< y where the mask is read from it, else null
    [[nodiscard]] static Mask mask(const Norm& n) {
        if (!n.relu) return Mask::none;
        return n.residual != nullptr ? Mask::from_output : Mask::from_input;
    }
    /// Whether the masked sum is kept in `first`; if not, it is worked out again.
    [[nodiscard]] bool kept(const Norm& n) const {
        return keeps_masked_sum(mask(n), second != nullptr);
    }
};

class NormGradientSumsStep : public Step {
public:
    NormGradientSumsStep(Norm& norm, NormGradient g) : norm_(norm), g_(g) {}
    void run(const Run&, const Place& at) override {
        auto& sums = norm_.sums(at.lane);
        if (at.opens) {
            std::fill(sums.first.begin(), sums.first.end(), 0.0);
            std::fill(sums.second.begin(), sums.second.end(), 0.0);
        }
        with_number(norm_.x->type, [&]<class E>(E) {
            E* g = g_.first->image_of<E>(at.first);
            run_kernel<NormGradientSums<E>>(typename NormGradientSums<E>::Args{
                g, g_.second != nullptr ? g_.second->image_of<E>(at.first) : nullptr, g,
                g_.x->image_of<E>(at.first),
                g_.mask_y != nullptr ? g_.mask_y->image_of<E>(at.first) : nullptr,
                norm_.layout.grid(at.count), norm_.scale.data(), norm_.shift.data(),
                norm_.mean.data(), sums.first.data(), sums.second.data(),
                NormGradient::mask(norm_)});
        });
    }

private:
    Norm& norm_;
    NormGradient g_;
};

class NormGradientApplyStep : public Step {
public:
    NormGradientApplyStep(Norm& norm, NormGradient g) : norm_(norm), g_(g) {}
    void begin(Run& run) override { norm_.finish_gradients(run); }
    void run(const Run&, const Place& at) override {
        const bool mask = NormGradient::mask(norm_) == Mask::from_input && !g_.kept(norm_);
        with_number(norm_.x->type, [&]<class E>(E) {
            run_kernel<NormGradientApply<E>>(typename NormGradientApply<E>::Args{
                g_.first->image_of<E>(at.first), g_.x->image_of<E>(at.first),
                g_.out->image_of<E>(at.first), norm_.layout.grid(at.count), norm_.scale.data(),
                norm_.shift.data(), norm_.of_g.data(), norm_.of_x.data(), norm_.constant.data(),
                mask});
        });
    }

private:
    Norm& norm_;
    NormGradient g_;
};

}  // namespace gx::onednn::detail
