"""The beanstalkd protocol: lines of text with counted bodies, pure."""
