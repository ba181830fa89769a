#include <tools/plan/measured.hpp>

#include <algorithm>  // max, min

#include <fmt/core.h>  // sentences

#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/core/error.hpp>                  // Error
#include <gx/sim/compute/vector_kernels.hpp>  // VectorKernels

namespace gx::tools::plan {

namespace {

[[nodiscard]] Nanoseconds times(Nanoseconds t, double factor) {
    return nanoseconds(seconds(t) * factor);
}
[[nodiscard]] double over(Nanoseconds there, Nanoseconds here) {
    return here.count() > 0 ? seconds(there) / seconds(here) : 1;
}

/// Stretches backward, and the moments at which gradients are final with it.
void set_backward(sim::StepWork& w, Nanoseconds to) {
    const double factor = over(to, w.backward);
    for (auto& r : w.ready) r.after = std::min(to, times(r.after, factor));
    w.backward = to;
}

}  // namespace

MeasuredWork measured_whole(double step_s, int batch) {
    return {.batch = batch, .step = {.forward = nanoseconds(step_s)}};
}

MeasuredWork measured_parts(const predict::MeasuredStep& trace, int batch,
                            const std::string& file) {
    const int passes = trace.micro_batches;
    if (batch % passes != 0)
        throw Error(
            fmt::format("{}: a step of {} micro-batches: --step-batch {} is no multiple of "
                        "them; give the examples of the whole step",
                        file, passes, batch));
    MeasuredWork m{.batch = batch / passes, .parts = true};
    sim::StepWork& w = m.step;
    const auto ms = [](double x) { return nanoseconds(x * 1e-3); };
    w.backward = ms(trace.backward_ms);
    w.update = ms(trace.update_ms);
    w.forward =
        std::max(ms(trace.forward_ms), ms((trace.step_ms - trace.update_ms) / passes) - w.backward);
    w.elements = trace.elements();
    std::int64_t final = w.elements;
    Nanoseconds after{};
    for (const predict::MeasuredStep::Gradient& g : trace.gradients) {
        after = std::max(after, times(w.backward, g.ready));
        final -= g.elements;
        w.ready.push_back({after, final});
    }
    return m;
}

Nanoseconds update_time(std::int64_t parameters, const sim::GpuSpec& gpu,
                        const UpdateCost& update) {
    const std::int64_t own = (parameters + update.shards - 1) / update.shards;
    return sim::VectorKernels(gpu).time(Bytes{update.bytes_per_parameter * own});
}

MeasuredWork with_parts(const MeasuredWork& whole, std::int64_t parameters, const sim::GpuSpec& gpu,
                        const UpdateCost& update, const std::string& option) {
    MeasuredWork m = whole;
    sim::StepWork& w = m.step;
    const Nanoseconds total = whole.step.total(), took = update_time(parameters, gpu, update);
    if (took >= total)
        throw Error(fmt::format(
            "{}: a step of {:.4g} ms, where {} takes {:.4g} ms for the update of {} parameters "
            "alone: is it the step of that network, on one GPU?",
            option, 1e3 * seconds(total), gpu.name.view(), 1e3 * seconds(took), parameters));
    w.update = took;
    w.forward = (total - took) / 3;
    w.backward = total - took - w.forward;
    w.elements = parameters;
    w.ready.clear();
    const std::int64_t parts = std::min<std::int64_t>(100, parameters);
    for (std::int64_t part = 1; part <= parts; ++part)
        w.ready.push_back(
            {times(w.backward, static_cast<double>(part) / static_cast<double>(parts)),
             parameters * (parts - part) / parts});
    w.ready.back().after = w.backward;
    m.parts = true;
    return m;
}

sim::StepWork scaled(const MeasuredWork& m, const sim::StepWork& there, const sim::StepWork& here) {
    sim::StepWork w = there;
    w.forward_kernels.clear();
    w.backward_kernels.clear();
    if (!m.parts) {
        const double factor = over(m.step.total(), here.total());
        w.forward = times(there.forward, factor);
        set_backward(w, times(there.backward, factor));
        w.update = times(there.update, factor);
        return w;
    }
    GX_EXPECT(m.step.elements == there.elements, "a trace of the network that is planned for");
    w.ready = m.step.ready;
    w.backward = m.step.backward;
    set_backward(w, times(m.step.backward, over(there.backward, here.backward)));
    w.forward = times(m.step.forward, over(there.forward, here.forward));
    w.update = times(m.step.update, over(there.update, here.update));
    return w;
}

sim::StepWork in_micro_batches(sim::StepWork pass, int count, Nanoseconds sum) {
    GX_EXPECT(count > 0, "a step has at least 1 micro-batch");
    if (count == 1) return pass;
    pass.forward_kernels.clear();
    pass.backward_kernels.clear();
    const Nanoseconds earlier = pass.forward + pass.backward;
    pass.forward += earlier * (count - 1) + sum * (count - 2);
    set_backward(pass, pass.backward + sum);
    return pass;
}

}  // namespace gx::tools::plan
