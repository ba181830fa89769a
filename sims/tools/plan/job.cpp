#include <tools/plan/job.hpp>

#include <algorithm>  // max
#include <cstdio>     // sscanf
#include <string>     // sentences
#include <vector>     // phases

#include <fmt/format.h>  // sentences

#include <gx/core/error.hpp>      // Error
#include <support/printable.hpp>  // printable

namespace gx::tools::plan {

namespace {

/// Errors: Error naming the phase, what was expected and found.
std::vector<JobPhase> phases_of(const Arguments& o, const sim::KnownModel& model) {
    std::vector<JobPhase> phases;
    const ImageShape image = model.make({}).input;
    for (const std::string& text : o.phases) {
        JobPhase p;
        int read = 0;
        const std::string name = "--phase " + printable(text);
        if (text.find_first_not_of("0123456789:-") != text.npos ||  // sscanf takes blanks and +
            std::sscanf(text.c_str(), "%9d:%9d:%5d%n", &p.first_epoch, &p.batch_per_gpu,
                        &p.image_side, &read) != 3 ||
            read != std::ssize(text))
            throw Error(name + ": expected FIRST_EPOCH:BATCH:SIDE, as 13:224:224");
        if (phases.empty() && p.first_epoch != 0)
            throw Error(name + ": the first phase begins at epoch 0");
        if (!phases.empty() && p.first_epoch <= phases.back().first_epoch)
            throw Error(
                fmt::format("{}: the phase before begins at epoch {}, and each begins "
                            "later than the one before",
                            name, phases.back().first_epoch));
        if (p.first_epoch >= o.epochs)
            throw Error(
                fmt::format("{}: begins behind the last of {} epochs: name an earlier one, "
                            "or more --epochs",
                            name, o.epochs));
        if (p.batch_per_gpu < 1 || p.image_side < 1)
            throw Error(name + ": a step has at least 1 example, and an image 1 pixel a side");
        if (image.height != image.width)
            throw Error(
                fmt::format("{}: {} has no images: give --batch-per-gpu", name, model.name));
        const GraphTrouble trouble =
            model.trouble({.input = {image.channels, p.image_side, p.image_side}});
        if (trouble.fault != GraphFault::none)
            throw Error(fmt::format("{}: images of {} x {} do not fit {}: {}", name, p.image_side,
                                    p.image_side, model.name, trouble.text().view()));
        phases.push_back(p);
    }
    return phases;
}

/// A sequence is an image of one column and one channel.
bool is_sequence(const ImageShape& input) { return input.channels == 1 && input.width == 1; }

/// Errors: Error for a network of sequences, which has no default.
std::int64_t examples_of(const Arguments& o, const sim::KnownModel& model, const Graph& graph) {
    if (o.examples > 0) return o.examples;
    if (is_sequence(graph.input))
        throw Error(
            fmt::format("--examples: {} learns from sequences, and ImageNet's 1,281,167 images "
                        "are the default of networks of images alone: give the number of "
                        "sequences in the data set",
                        model.name));
    return 1'281'167;
}

/// The job but for its network and examples.
void set_job(Job& job, const Arguments& o) {
    job.epochs = o.epochs;
    job.global_batch = o.global_batch;
    job.batch_per_gpu = o.batch_per_gpu;
    if (job.global_batch == 0 && job.batch_per_gpu == 0 && o.phases.empty()) {
        if (o.own()) job.batch_per_gpu = o.step.batch;  // nothing else is known to fit
        else job.global_batch = 2048;
    }
    const int least = std::max(job.global_batch, job.batch_per_gpu);
    if (least > job.examples)
        throw Error(
            fmt::format("{} {}: a step takes more than the {} examples of the data set: "
                        "give a smaller batch, or more --examples",
                        job.global_batch > 0   ? "--global-batch"
                        : o.batch_per_gpu == 0 ? "--step-batch"
                                               : "--batch-per-gpu",
                        least, job.examples));
    if (o.budget_dollars > 0) job.budget = Dollars{o.budget_dollars};
    if (o.deadline_hours > 0) job.deadline = nanoseconds(o.deadline_hours * 3600);
}

}  // namespace

GraphOptions graph_options(const Arguments& o, const sim::KnownModel& model) {
    if (o.sequence_length == 0) return {};
    const std::string name = fmt::format("--sequence-length {}", o.sequence_length);
    if (!is_sequence(model.make({}).input))
        throw Error(
            fmt::format("{}: {} takes images, not sequences: leave this option out, or name a "
                        "network of sequences, as BERT-large, with --model",
                        name, model.name));
    const GraphOptions options{.input = {1, o.sequence_length, 1}};
    const GraphTrouble trouble = model.trouble(options);
    if (trouble.fault != GraphFault::none)
        throw Error(fmt::format("{}: sequences of {} tokens do not fit {}: {}", name,
                                o.sequence_length, model.name, trouble.text().view()));
    return options;
}

void expect_options_of_model(const Arguments& o) {
    if (!o.own() && o.parameters > 0)
        throw Error(
            fmt::format("--parameters: {} is known: leave this out, or plan for a network "
                        "of yours as --model own",
                        o.model));
    if (!o.own()) return;
    const auto refuse = [](bool given, const char* option, const char* why) {
        if (given) throw Error(fmt::format("{}: --model own has no {}", option, why));
    };
    refuse(!o.phases.empty(), "--phase",
           "image size: plan each phase by a step that was measured in it");
    refuse(o.sequence_length > 0, "--sequence-length",
           "length but that of the measured step: leave this out");
    refuse(o.kernels != "auto", "--kernels", "roofline: leave this out");
    if (o.examples == 0)
        throw Error("--examples: --model own has no data set of its own: give its examples");
}

Job known_job(const Arguments& o, const sim::KnownModel& model, const Graph& graph) {
    const std::vector<JobPhase> phases = phases_of(o, model);
    Job job{.model = std::string(model.name),
            .sequence_length = is_sequence(graph.input) ? graph.input.height : 0,
            .examples = examples_of(o, model, graph)};
    set_job(job, o);
    job.phases = phases;
    return job;
}
Job own_job(const Arguments& o, std::int64_t parameters) {
    Job job{.model = o.model, .parameters = parameters, .examples = o.examples};
    set_job(job, o);
    return job;
}

}  // namespace gx::tools::plan
