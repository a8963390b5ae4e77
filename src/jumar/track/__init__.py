"""What a training tells about itself: read out of its log. Text in, numbers out."""
