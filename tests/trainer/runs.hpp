// Run records to print: two runs with numbers that are told apart, and a hostile one.
#pragma once

#include <gx/trainer/record.hpp>  // RunRecord

namespace testing_support {

inline gx::RunRecord run(const char* reducer = "Ring<fp32>") {
    gx::RunRecord r{.composition = "Trainer<Net, Ring<fp32>, Constant>",
                    .model = "Net",
                    .reducer = reducer,
                    .scheduler = "Constant",
                    .optimizer = "Sgd",
                    .device = "Device",
                    .world = "a world",
                    .clock = "virtual",
                    .timed_as = "ResNet50",
                    .notes = {"one note.", "another."}};
    r.ranks = 8;
    r.batch_per_rank = 32;
    r.epochs_planned = 2;
    r.seed = 5;
    r.steps = {
        {.step = 0, .seconds = 0.5, .loss = 2.5, .rate = 0.25, .loss_scale = 1024},
        {.step = 1, .seconds = 1, .loss = 1.5, .rate = 0.5, .loss_scale = 512, .skipped = true}};
    r.epochs = {{.epoch = 0,
                 .step = 1,
                 .seconds = 0.5,
                 .train_loss = 2.5,
                 .train_accuracy_pct = 10,
                 .test_loss = 2.25,
                 .test_accuracy_pct = 12.5,
                 .test_top5_accuracy_pct = 37.5,
                 .images_per_second = 512},
                {.epoch = 1,
                 .step = 2,
                 .seconds = 1,
                 .train_loss = 1.5,
                 .train_accuracy_pct = 60,
                 .test_loss = 1.25,
                 .test_accuracy_pct = 62.5,
                 .test_top5_accuracy_pct = 87.5,
                 .images_per_second = 510}};
    r.breakdown = {.compute = 0.5, .exposed_communication = 0.25, .input = 0.125, .idle = 0.125};
    const auto ms = [](int n) { return gx::Nanoseconds(n * 1'000'000); };
    r.spans = {{0, gx::Track::compute, "FORWARD", ms(500), ms(700), 1},
               {0, gx::Track::compute, "conv", ms(500), ms(600), 1},
               {0, gx::Track::communication, "ALLREDUCE", ms(700), ms(900), 1},
               {0, gx::Track::compute, "BACKWARD", ms(700), ms(1000), 1}};
    r.seconds = 1;
    r.images = 512;
    r.images_per_second = 512;
    r.scaling_efficiency_pct = 50;
    r.exposed_communication_pct = 25;
    r.dollars = 0.125;
    r.bytes_sent_per_step = 2'500'000;
    r.event_hash = ~std::uint64_t{0};
    r.weights_hash = 7;
    r.wall_seconds = 3;
    r.skipped_steps = 1;
    return r;
}

/// Every text tries to leave its place.
inline gx::RunRecord hostile_run() {
    const char* bad = "<script src=\"http://x/y\">&'\\";
    gx::RunRecord r = run(bad);
    r.composition = r.model = r.scheduler = r.optimizer = r.device = r.world = r.clock =
        r.timed_as = bad;
    r.notes = {bad};
    for (gx::Span& s : r.spans)
        if (s.track == gx::Track::communication) s.name = bad;
    return r;
}

}  // namespace testing_support
