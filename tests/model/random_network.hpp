// random_network(): any small sound graph, for properties; call it inside a property.
#pragma once

#include <gx/model/graph.hpp>

#include <rapidcheck.h>

namespace gx::testing_support {

/// Each as likely as any other from the first case on; small ones first would be mostly ReLUs.
inline int any_of(int low, int high) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}

/// One of each kind of operation, a residual block among them.
inline int random_layer(GraphBuilder& b, int x, const Label& name) {
    const ImageShape in = b.shape(x);
    const int side = in.height < in.width ? in.height : in.width;
    switch (any_of(0, 7)) {
        case 0: return b.relu(x, name);
        case 1: return b.batch_norm(x, {.zero_gamma = *rc::gen::arbitrary<bool>()}, name);
        case 2: return b.dropout(x, 0.25, name);
        case 3: return side < 2 ? x : b.max_pool(x, Window::square(2, any_of(1, 2)), name);
        case 4: return side < 3 ? x : b.avg_pool(x, Window::square(3, any_of(1, 3), 1), name);
        case 5: {
            const int body = b.conv2d(x, {in.channels, Window::square(3, 1, 1)}, name);
            return b.add(b.relu(body, name + ".relu"), x, name + ".add");
        }
        default: {
            const int kernel = side < 3 ? 1 : 3;
            const Window w = Window::square(kernel, any_of(1, 2), any_of(0, 1));
            const bool bias = *rc::gen::arbitrary<bool>();
            return b.conv2d(x, {any_of(1, 6), w, 1, bias}, name);
        }
    }
}

inline Graph random_network() {
    const ImageShape image{any_of(1, 3), any_of(1, 12), any_of(1, 12)};
    GraphBuilder b("random", image, any_of(2, 5));
    int x = b.input();
    const int layers = any_of(0, 12);
    for (int i = 0; i < layers; ++i) x = random_layer(b, x, Label("layer") + i);
    x = b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    return std::move(b).finish();
}

}  // namespace gx::testing_support
