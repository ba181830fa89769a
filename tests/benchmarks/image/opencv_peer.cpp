// OpenCV's way from a JPEG to a training image: imdecode, crop, resize, flip, RGB.
// Run: gx_image_opencv FILE CROPS WAY
// Reads a word for each round, and writes the processor seconds of that round.
// WAY: imdecode (without looking for an orientation), exif (looking for it), turbo (a whole decode
//      by libjpeg-turbo in place of imdecode, and no change of channels)
#include <cstdio>
#include <jpeglib.h>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

struct Crop {
    int left, top, width, height, mirrored;
};

cv::Mat turbo(const std::vector<uchar>& file, cv::Mat& image) {
    static jpeg_decompress_struct info;
    static jpeg_error_mgr errors;
    if (!info.err) {
        info.err = jpeg_std_error(&errors);
        jpeg_create_decompress(&info);
    }
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
    jpeg_start_decompress(&info);
    image.create(int(info.output_height), int(info.output_width), CV_8UC3);
    while (info.output_scanline < info.output_height) {
        JSAMPROW rows[8];
        for (int i = 0; i < 8; ++i)
            rows[i] = image.ptr(std::min(int(info.output_scanline) + i, image.rows - 1));
        jpeg_read_scanlines(&info, rows, 8);
    }
    jpeg_finish_decompress(&info);
    return image;
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) return 2;
    cv::setNumThreads(1);
    std::ifstream in(words[1], std::ios::binary);
    const std::vector<uchar> file((std::istreambuf_iterator<char>(in)), {});
    std::vector<Crop> crops;
    std::ifstream list(words[2]);
    for (Crop c; list >> c.left >> c.top >> c.width >> c.height >> c.mirrored;) crops.push_back(c);
    const std::string way = words[3];
    const int flags =
        way == "exif" ? cv::IMREAD_COLOR : cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION;
    cv::Mat image, resized, flipped, out;
    for (std::string word; std::cin >> word;) {
        const std::clock_t begin = std::clock();
        for (const Crop& c : crops) {
            if (way == "turbo") turbo(file, image);
            else cv::imdecode(file, flags, &image);
            cv::resize(image(cv::Rect(c.left, c.top, c.width, c.height)), resized, {224, 224}, 0, 0,
                       cv::INTER_LINEAR);
            if (c.mirrored) cv::flip(resized, flipped, 1);
            if (way != "turbo")
                cv::cvtColor(c.mirrored ? flipped : resized, out, cv::COLOR_BGR2RGB);
        }
        std::cout << double(std::clock() - begin) / CLOCKS_PER_SEC << std::endl;
    }
}
