#include <gx/sim/world/watermark_check.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // copy
#include <limits>     // NaN
#include <string>     // sentences
#include <vector>     // gradients

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/model/graph.hpp>                  // GraphBuilder
#include <gx/reference/device.hpp>             // reference::Device
#include <gx/sim/world/device.hpp>             // sim::Device
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g

namespace {

gx::Graph small() {
    gx::GraphBuilder b("small", {1, 2, 2}, 3);
    int x = b.flatten(b.input(), "flatten");
    x = b.relu(b.linear(x, 5, true, "first"), "relu");
    (void)b.softmax_cross_entropy(b.linear(x, 3, true, "second"), 0, "loss");
    return std::move(b).finish();
}
// 'first' has 20 weights and 5 biases, 'second' 15 and 3.
constexpr std::size_t elements = 43;

std::string refusal(auto f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(WatermarkCheck, NamesLayerAndParameterOfAnEarlyReport) {
    const gx::Graph graph = small();
    const gx::reference::Device device(graph, {.batch = 1});
    std::vector<float> gradients(elements, 0.0f);
    gx::sim::WatermarkCheck check;
    check.begin(gradients);
    gradients[40] = 1;
    check.reported(40);
    check.reported(25);  // 15 weights of 'second', before they are there
    gradients[30] = 1;
    check.reported(0);
    EXPECT_EQ(refusal([&] { check.expect_final(graph, device.slices()); }),
              "backward reported the gradients from element 25 on as ready, and then changed "
              "element 30, of 'second.weight' of layer 'second': a device calls ready(watermark) "
              "after the last write to any of them. Move the call behind that layer's backward.");
}
TEST(WatermarkCheck, ALateReportIsRight) {
    const gx::Graph graph = small();
    std::vector<float> gradients(elements, std::numeric_limits<float>::quiet_NaN());
    gx::sim::WatermarkCheck check;
    for (int pass = 0; pass < 2; ++pass) {  // what the last pass reported is forgotten
        check.begin(gradients);
        std::fill(gradients.begin(), gradients.end(), static_cast<float>(pass));
        check.reported(elements);
        check.reported(3);
        check.reported(7);
        gradients[2] = 5;  // never reported, so never too early
        EXPECT_EQ(refusal([&] { check.expect_final(graph, {}); }), "");
    }
}

// ---- A property -----------------------------------------------------------------------
// Writes in a random order, reports at random times: the oracle counts writes behind a report.
RC_GTEST_PROP(WatermarkCheck, FindsExactlyTheWritesBehindAReport, ()) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 20);
    std::vector<float> gradients(n, 0.0f);
    gx::sim::WatermarkCheck check;
    check.begin(gradients);
    std::size_t lowest = n;
    bool early = false;
    const int events = *rc::gen::inRange(0, 30);
    for (int e = 0; e < events; ++e) {
        const auto at = *rc::gen::inRange<std::size_t>(0, n);
        if (*rc::gen::inRange(0, 4) == 0) {
            check.reported(at);
            lowest = std::min(lowest, at);
        } else {
            gradients[at] += 1;
            early = early || at >= lowest;
        }
    }
    RC_ASSERT(refusal([&] { check.expect_final(small(), {}); }).empty() == !early);
}

// ---- In the simulated device ----------------------------------------------------------
/// Reports everything before it has computed anything.
struct TooEarly : gx::reference::Device {
    using Device::Device;
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        ready(0);
        Device::backward(scale, gradients, [](std::size_t) {});
    }
};
/// Reports each gradient together with those of the parameter before it.
struct OneTooEarly : gx::reference::Device {
    using Device::Device;
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        Device::backward(scale, gradients, [&](std::size_t w) {
            std::size_t before = 0;
            for (const gx::ParameterSlice& s : slices())
                if (s.offset < w) before = s.offset;
            ready(before);
        });
    }
};
struct Late : gx::reference::Device {
    using Device::Device;
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        Device::backward(scale, gradients, [](std::size_t) {});
        ready(0);
    }
};

template <class Inner>
std::string trained_on() {
    return refusal([] {
        gx::sim::Cluster<Inner>(gx::sim::ethernet_10g(1)).run([](auto& rank) {
            const std::vector<float> images(8, 0.5f);
            const std::vector<std::int32_t> labels{0, 2};
            auto device = rank.make_device(small(), {.batch = 2});
            device->update([](std::span<float> p) {
                for (std::size_t i = 0; i < p.size(); ++i)
                    p[i] = 0.01f * static_cast<float>(i % 7) - 0.02f;
            });
            std::vector<float> gradients(device->parameters().size());
            (void)device->forward({images, labels, 2, 0}, gx::Mode::train);
            device->backward(1, gradients, [](std::size_t) {});
        });
    });
}
TEST(WatermarkCheck, ASimulatedDeviceReportsWhatItsInnerDeviceBreaks) {
    EXPECT_EQ(trained_on<gx::reference::Device>(), "");
    EXPECT_EQ(trained_on<Late>(), "");
    EXPECT_NE(trained_on<TooEarly>().find("from element 0 on as ready, and then changed element "
                                          "42, of 'second.bias' of layer 'second'"),
              std::string::npos)
        << trained_on<TooEarly>();
    EXPECT_NE(trained_on<OneTooEarly>().find("of 'first."), std::string::npos)
        << trained_on<OneTooEarly>();
}

}  // namespace
